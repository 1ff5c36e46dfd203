/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The custom ops for TensorFlow Lite Micro.
 *
 *   static tflite::MicroMutableOpResolver<N> resolver;
 *   tflite::AddZoOps(&resolver);      // 4 ops
 *   tflite::AddZoStateOps(&resolver);  // 1 op, for models with a state
 *   tflite::AddZoRecurrentOps(&resolver);  // 2 ops, for models that train SVDF or LSTM
 *
 * No arena, no scratch buffers, no static data. To reach the weights, give the interpreter a
 * zo_directory (ops/core/graph/zo_op.h) before AllocateTensors:
 * interpreter.SetMicroExternalContext(&directory). Other payloads are ignored.
 */
#ifndef TFLM_ZO_OPS_TFLM_ZO_OPS_H_
#define TFLM_ZO_OPS_TFLM_ZO_OPS_H_

#include "tensorflow/lite/micro/micro_common.h"

namespace tflite {

TFLMRegistration Register_ZO_SEED_REPLAY();
TFLMRegistration Register_ZO_UPDATE();
TFLMRegistration Register_ZO_PERTURB();
TFLMRegistration Register_ZO_LOSS();

/* Replaces each of the first three if the owner of the directory moves the weights, as the
 * generated trainers do: executes no command, and takes less flash. */
TFLMRegistration Register_ZO_WEIGHTS();

/* The operator of states, which outlive an invoke. */
TFLMRegistration Register_ZO_STATE();

/* SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM with weights that are trained. */
TFLMRegistration Register_ZO_SVDF();
TFLMRegistration Register_ZO_LSTM();

/* Adds the ops that move weights, and the loss, to a MicroMutableOpResolver (or anything with its
 * AddCustom). */
template <typename Resolver>
TfLiteStatus AddZoOps(Resolver* resolver) {
  const TFLMRegistration replay = Register_ZO_SEED_REPLAY();
  const TFLMRegistration update = Register_ZO_UPDATE();
  const TFLMRegistration perturb = Register_ZO_PERTURB();
  const TFLMRegistration loss = Register_ZO_LOSS();
  if (resolver->AddCustom("TFLM_ZO_SEED_REPLAY", &replay) != kTfLiteOk ||
      resolver->AddCustom("TFLM_ZO_UPDATE", &update) != kTfLiteOk ||
      resolver->AddCustom("TFLM_ZO_PERTURB", &perturb) != kTfLiteOk ||
      resolver->AddCustom("TFLM_ZO_LOSS", &loss) != kTfLiteOk) {
    return kTfLiteError;
  }
  return kTfLiteOk;
}

/* Adds the operator of networks with a state: of resource variables, SVDF, LSTM. */
template <typename Resolver>
TfLiteStatus AddZoStateOps(Resolver* resolver) {
  const TFLMRegistration state = Register_ZO_STATE();
  return resolver->AddCustom("TFLM_ZO_STATE", &state);
}

/* Adds the operators of SVDF and LSTM whose weights are trained. */
template <typename Resolver>
TfLiteStatus AddZoRecurrentOps(Resolver* resolver) {
  const TFLMRegistration svdf = Register_ZO_SVDF();
  const TFLMRegistration lstm = Register_ZO_LSTM();
  return resolver->AddCustom("TFLM_ZO_SVDF", &svdf) == kTfLiteOk ? resolver->AddCustom("TFLM_ZO_LSTM", &lstm)
                                                                 : kTfLiteError;
}

}  // namespace tflite

#endif  // TFLM_ZO_OPS_TFLM_ZO_OPS_H_
