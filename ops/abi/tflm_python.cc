/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Registers the ops with TFLM's Python package (`tflite-micro`).
 *
 * Its interpreter looks custom ops up by symbol name, `bool NAME(PythonOpsResolver *)`, in the
 * global namespace of the process. The resolver is a MicroMutableOpResolver<200> compiled into the
 * package; its layout is repeated here because its AddCustom is not exported.
 */
#include <cstring>

#include "ops/tflm/zo_ops.h"

namespace {

constexpr unsigned kCapacity = 200;
constexpr int32_t kBuiltinCustom = 32;  // BuiltinOperator_CUSTOM

struct PythonOpsResolver {
  void* vtable;
  TFLMRegistration registrations[kCapacity];
  unsigned length;

  TfLiteStatus AddCustom(const char* name, const TFLMRegistration* registration) {
    if (length >= kCapacity) return kTfLiteError;
    registrations[length] = *registration;
    registrations[length].builtin_code = kBuiltinCustom;
    registrations[length].custom_name = name;
    ++length;
    return kTfLiteOk;
  }
};

thread_local void* external_context = nullptr;

}  // namespace

extern "C" {

// Called by the package's interpreter.
bool TFLM_ZO_Register(PythonOpsResolver* resolver) {
  return tflite::AddZoOps(resolver) == kTfLiteOk && tflite::AddZoStateOps(resolver) == kTfLiteOk &&
         tflite::AddZoRecurrentOps(resolver) == kTfLiteOk;
}

// Directory for the interpreters that this thread creates from now on; null for none.
void zo_tflm_set_external_context(void* context) { external_context = context; }

void* zo_tflm_external_context(void) { return external_context; }

}  // extern "C"
