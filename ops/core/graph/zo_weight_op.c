/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "ops/core/graph/zo_op.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/zo_features.h"
#include "ops/core/zo_little_endian.h"
#include "ops/core/zo_workers.h"

/* Node inputs. */
enum { kCommand = 0, kState = 1, kInitial = 2, kFraction = 3 };
/* Node outputs, as a zo_buffer_source counts them. */
enum { kStatus = -1 };
/* A power of two: the op has such an output, or none. */
enum { kStatusBytes = sizeof(int32_t) * ZO_STATUS_WORDS };
/* Words of zo_state. */
enum { kStateMagic = 0, kStateSteps = 1, kStateSaturated = 2 };

/* Layout of the options. */
enum {
  kOptionVersion = 0,
  kOptionFlags = 1,
  kOptionHeadroom = 2,
  kOptionMaxQueries = 3,
  kOptionTensors = 4,
  kOptionBlocks = 6,
  kOptionHeaderBytes = 8,
  kOptionTensorBytes = 12,
};

typedef struct weight_op {
  const uint8_t* options;
  uint32_t flags;
  uint32_t tensors;
  zo_limits limits;
  zo_buffer_source source;
  void* context;
  int runs; /* tensors have memory */
  zo_buffer command;
  int32_t* state;
} weight_op;

/* Walks the trainable tensors of a op: the first `next_tensor` enters tensor 0. */
typedef struct weight_cursor {
  const weight_op* op;
  zo_buffer initial;  /* of the segment */
  zo_buffer fraction; /* of the segment; null without */
  uint32_t number;    /* of the tensor that comes next */
  uint32_t offset;    /* bytes of weights before it */
  uint32_t fractions; /* tensors with fractions among them */
  int32_t input;      /* its first op input */
  int consistent;     /* sizes and options agree so far */

  /* The tensor entered last. */
  zo_tensor tensor;
  const int8_t* tensor_initial;
  uint32_t block;
} weight_cursor;

/* Options of models that this build cannot train. */
#if ZO_WITH_CHECKS
static uint32_t missing_flags(void) { return (ZO_WITH_MULTIPLIERS ? 0u : ZO_OPTION_MULTIPLIER) | ZO_OPTION_MASK; }
#endif

static zo_status read_options(const uint8_t* options, size_t length, weight_op* op) {
  if (ZO_WITH_CHECKS &&
      (options == NULL || length < kOptionHeaderBytes || options[kOptionVersion] != ZO_OPTIONS_VERSION)) {
    return ZO_ERROR_OPTIONS;
  }
  op->options = options;
  op->flags = options[kOptionFlags];
  op->limits.headroom = options[kOptionHeadroom];
  op->limits.max_queries = options[kOptionMaxQueries];
  op->tensors = zo_read_u16(options + kOptionTensors);
  op->limits.blocks = zo_read_u16(options + kOptionBlocks);
#if ZO_WITH_CHECKS
  const int valid = op->limits.headroom <= 126u && op->limits.max_queries >= 1u &&
                    op->limits.max_queries <= ZO_QUERY_SEEDS && op->tensors >= 1u &&
                    (op->flags & missing_flags()) == 0u &&
                    length == kOptionHeaderBytes + (size_t)kOptionTensorBytes * op->tensors;
#else
  const int valid = 1;
#endif
  /* A build with room for fewer takes the commands that fit it. */
  if (op->limits.max_queries > ZO_MAX_QUERIES) op->limits.max_queries = ZO_MAX_QUERIES;
  return valid ? ZO_OK : ZO_ERROR_OPTIONS;
}

/* One without a size counts as absent, wherever it points. When the op runs, one that has a size
 * and no memory gets a size that fits nothing; so does one in the command's memory: lengths in
 * there are checked once, and must not change while the op writes. */
static zo_buffer input_buffer(const weight_op* op, int32_t index) {
  zo_buffer buffer = op->source(op->context, index);
  if (buffer.bytes == 0u) buffer.data = NULL;
  if (ZO_WITH_CHECKS && buffer.bytes != 0u && op->runs && (buffer.data == NULL || buffer.data == op->command.data)) {
    buffer.bytes = ZO_NO_SIZE;
  }
  return buffer;
}

static weight_cursor first_tensor(const weight_op* op) {
  const int has_fraction = (op->flags & ZO_OPTION_FRACTION) != 0u;
  weight_cursor cursor;
  cursor.op = op;
  cursor.initial = input_buffer(op, kInitial);
  cursor.fraction.data = NULL;
  cursor.fraction.bytes = 0;
  if (has_fraction) cursor.fraction = input_buffer(op, kFraction);
  cursor.number = 0;
  cursor.offset = 0;
  cursor.fractions = 0;
  cursor.input = has_fraction ? kFraction + 1 : kInitial + 1;
  cursor.consistent = cursor.initial.bytes != ZO_NO_SIZE;
  return cursor;
}

#if ZO_WITH_CHECKS
/* Whether a tensor has the size that its type requires; its data may be null. */
static int type_fits(const zo_tensor* tensor) {
  if (tensor->type == ZO_TENSOR_INT8) return 1;
  return tensor->size == sizeof(int32_t) * (uint64_t)tensor->channels &&
         (uintptr_t)tensor->weights % sizeof(int32_t) == 0u;
}

#endif

/* Enters the next tensor; 0 after the last one. */
static int next_tensor(weight_cursor* cursor) {
  const weight_op* op = cursor->op;
  if (cursor->number == op->tensors) return 0;
  const uint8_t* entry = op->options + kOptionHeaderBytes + (size_t)kOptionTensorBytes * cursor->number++;
  const zo_buffer weights = input_buffer(op, cursor->input++);
  zo_buffer multiplier = {NULL, 0};
  if (ZO_WITH_MULTIPLIERS && (op->flags & ZO_OPTION_MULTIPLIER) != 0u) multiplier = input_buffer(op, cursor->input++);

  zo_tensor* tensor = &cursor->tensor;
  tensor->weights = (int8_t*)weights.data;
  tensor->multiplier = (const int32_t*)multiplier.data;
  tensor->size = weights.bytes;
  tensor->stream = zo_read_u16(entry);
  tensor->channels = zo_read_u32(entry + 4);
  tensor->inner = zo_read_u32(entry + 8);
  tensor->limit = 127 - (int32_t)op->limits.headroom;
  /* Null at Prepare, when only sizes count; null plus an offset would be undefined. */
  const int8_t* initial = (const int8_t*)cursor->initial.data;
  int8_t* fraction = (int8_t*)cursor->fraction.data;
  cursor->tensor_initial = initial != NULL ? initial + cursor->offset : NULL;
  const uint32_t block = zo_read_u16(entry + 2);
  const int is_bias = (block & ZO_OPTION_BIAS) != 0u;
  tensor->fraction = fraction != NULL && !is_bias ? fraction + cursor->fractions : NULL;
  cursor->block = block & ~ZO_OPTION_BIAS;
  tensor->type = is_bias ? ZO_TENSOR_INT32 : ZO_TENSOR_INT8;

#if ZO_WITH_CHECKS
  cursor->consistent = cursor->consistent && weights.bytes > 0u &&
                       weights.bytes <= cursor->initial.bytes - cursor->offset && tensor->channels > 0u &&
                       tensor->inner > 0u && cursor->block < op->limits.blocks && type_fits(tensor) &&
                       zo_tensor_is_supported(tensor) &&
                       (multiplier.bytes == 0u || multiplier.bytes == sizeof(int32_t) * (uint64_t)tensor->channels);
#endif
  cursor->offset += weights.bytes;
  cursor->fractions += is_bias ? 0u : weights.bytes;
  return 1;
}

/* Options, command and state, checked; `runs`: their data as well. */
static zo_status read_head(const uint8_t* options, size_t length, zo_buffer_source source, void* context, int runs,
                           weight_op* op) {
  const zo_status status = read_options(options, length, op);
  if (status != ZO_OK) return status;
  if (ZO_WITH_CHECKS && source == NULL) return ZO_ERROR_ARGUMENT;
  op->source = source;
  op->context = context;
  op->runs = runs;
  op->command.data = NULL;
  op->command = input_buffer(op, kCommand);
  const zo_buffer state = input_buffer(op, kState);
  op->state = (int32_t*)state.data;
  if (ZO_WITH_CHECKS && (op->command.bytes < sizeof(int32_t) * ZO_COMMAND_HEADER_WORDS ||
                         op->command.bytes == ZO_NO_SIZE || state.bytes != sizeof(int32_t) * ZO_STATE_WORDS ||
                         (source(context, kStatus).bytes & ~(uint32_t)kStatusBytes) != 0u)) {
    return ZO_ERROR_ARGUMENT;
  }
  return ZO_OK;
}

/* The tensors of an op whose head was read. */
static zo_status check_tensors(const weight_op* op) {
  if (!ZO_WITH_CHECKS) return ZO_OK;
  weight_cursor cursor = first_tensor(op);
  while (cursor.consistent && next_tensor(&cursor)) {
  }
  const int complete = cursor.offset == cursor.initial.bytes &&
                       ((op->flags & ZO_OPTION_FRACTION) == 0u || cursor.fractions == cursor.fraction.bytes);
  return cursor.consistent && complete ? ZO_OK : ZO_ERROR_ARGUMENT;
}

zo_status zo_weight_op_check(const uint8_t* options, size_t length, zo_buffer_source source, void* context) {
  if (!ZO_WITH_CHECKS) return ZO_OK;
  weight_op op;
  const zo_status status = read_head(options, length, source, context, 0, &op);
  return status == ZO_OK ? check_tensors(&op) : status;
}

static void publish_tensor(const zo_tensor* tensor, zo_directory_entry* entry) {
  entry->weights = tensor->weights;
  entry->fraction = tensor->fraction;
  entry->size = tensor->size;
  entry->stream = tensor->stream;
}

static void publish_tensors(const weight_op* op, zo_directory* directory) {
  directory->count = op->tensors;
  directory->state = op->state;
  weight_cursor cursor = first_tensor(op);
  for (uint32_t t = 0; t < directory->capacity && next_tensor(&cursor); ++t) {
    publish_tensor(&cursor.tensor, &directory->entries[t]);
  }
}

#if ZO_WITH_COMMANDS
static zo_status execute_instructions(const weight_op* op, const int32_t* words, zo_opcode opcode,
                                      uint32_t* saturated) {
  weight_cursor cursor = first_tensor(op);
  while (next_tensor(&cursor)) {
    const zo_status status =
        zo_command_execute(words, opcode, &cursor.tensor, cursor.block, cursor.tensor_initial, saturated);
    if (status != ZO_OK) return status;
  }
  return ZO_OK;
}
#endif

/* Copies every tensor's initial weights in. */
static void copy_initial_weights(const weight_op* op, int32_t* state) {
  weight_cursor cursor = first_tensor(op);
  while (next_tensor(&cursor)) zo_restore_s8(&cursor.tensor, cursor.tensor_initial);
  state[kStateMagic] = ZO_STATE_MAGIC;
  state[kStateSteps] = 0;
}

static uint32_t checksum_of_weights(const weight_op* op) {
  uint32_t sum = 0;
  weight_cursor cursor = first_tensor(op);
  while (next_tensor(&cursor)) sum += zo_checksum(&cursor.tensor);
  return sum;
}

/* Whether the command is empty, as in most invokes of a segment that is only re-run. Invalid
 * commands are left to the checks. */
static int is_idle(const int32_t* words) {
  if (ZO_WITH_CHECKS && (uintptr_t)words % sizeof(int32_t) != 0u) return 0;
  const uint32_t head = (uint32_t)words[0];
  return head == 0u || ((head & ~(ZO_FLAG_LOSS | ZO_FLAG_CONTINUE)) == ZO_COMMAND_MAGIC && words[1] == 0);
}

static void report_status(const weight_op* op, const int32_t* words) {
  if ((op->flags & ZO_OPTION_LAST) == 0u) return;
  int32_t* report = (int32_t*)input_buffer(op, kStatus).data;
  if (report == NULL) return;
  const int wanted = (zo_command_flags(words) & ZO_FLAG_CHECKSUM) != 0u;
  report[0] = words[0];
  report[1] = op->state[kStateSteps];
  report[2] = op->state[kStateSaturated];
  report[3] = wanted ? (int32_t)checksum_of_weights(op) : 0;
}

zo_status zo_weight_op_run(zo_opcode opcode, const uint8_t* options, size_t length, zo_buffer_source source,
                           void* context, zo_directory* directory) {
  weight_op op;
  zo_status status = read_head(options, length, source, context, 1, &op);
  if (status != ZO_OK) return status;

  const int32_t* words = (const int32_t*)op.command.data;
  int32_t* state = op.state;
  if ((op.flags & ZO_OPTION_FIRST) != 0u) state[kStateSaturated] = 0;
  if (state[kStateMagic] == ZO_STATE_MAGIC && is_idle(words)) {
    report_status(&op, words);
    return ZO_OK;
  }
  /* Again, because a runtime may have moved or resized tensors since Prepare: no weight is touched
   * where another one cannot be. */
  status = check_tensors(&op);
  if (status != ZO_OK) return status;
#if ZO_WITH_COMMANDS
  /* Every op checks the whole command: the first one must not act on a command that a later one
   * refuses. */
  status = zo_command_check(words, op.command.bytes / (uint32_t)sizeof(int32_t), &op.limits);
  if (status != ZO_OK) return status;
#else
  (void)opcode;
  if (!is_idle(words)) return ZO_ERROR_COMMAND;
#endif

  if ((op.flags & ZO_OPTION_FIRST) != 0u) {
    if (state[kStateMagic] != ZO_STATE_MAGIC) copy_initial_weights(&op, state);
#if ZO_WITH_COMMANDS
    status = execute_instructions(&op, words, ZO_OP_RESTORE, NULL);
    if (status != ZO_OK) return status;
    if (zo_command_restores_all(words)) state[kStateSteps] = 0;
#endif
    if (directory != NULL) publish_tensors(&op, directory);
  }

#if ZO_WITH_COMMANDS
  uint32_t saturated = 0;
  status = execute_instructions(&op, words, opcode, &saturated);
  if (status != ZO_OK) return status;
  state[kStateSaturated] = (int32_t)((uint32_t)state[kStateSaturated] + saturated);
  state[kStateSteps] = (int32_t)((uint32_t)state[kStateSteps] + zo_command_steps(words, opcode));
#endif

  report_status(&op, words);
  return ZO_OK;
}

#if !ZO_KERNEL_SETS /* desktops write commands */
zo_status zo_weight_op_publish(const uint8_t* options, size_t length, zo_buffer_source source, void* context,
                               zo_directory* directory) {
#if ZO_WITH_CHECKS
  weight_op op;
  zo_status status = read_head(options, length, source, context, 1, &op);
  if (status != ZO_OK) return status;
#else
  (void)length;
#endif
  const uint32_t flags = options[kOptionFlags];
  const int32_t* words = (const int32_t*)source(context, kCommand).data;
  if (!is_idle(words)) return ZO_ERROR_COMMAND;
  if ((flags & ZO_OPTION_LAST) != 0u) {
    int32_t* report = (int32_t*)source(context, kStatus).data;
    /* The loss looks at the first word of the status for whether it is wanted. */
    if (report != NULL) {
      memset(report, 0, kStatusBytes);
      report[0] = words[0];
    }
  }
  int32_t* state = (int32_t*)source(context, kState).data;
  if ((flags & ZO_OPTION_FIRST) == 0u || state[kStateMagic] == ZO_STATE_MAGIC) return ZO_OK;
#if ZO_WITH_CHECKS
  status = check_tensors(&op);
  if (status != ZO_OK) return status;
#endif
  state[kStateMagic] = ZO_STATE_MAGIC;
  const uint32_t tensors = zo_read_u16(options + kOptionTensors);
  if (directory != NULL) {
    directory->count = tensors;
    directory->state = state;
  }
  const int8_t* initial = (const int8_t*)source(context, kInitial).data;
  int8_t* fraction = NULL;
  int32_t at = kFraction;
  if (ZO_WITH_16_BITS && (flags & ZO_OPTION_FRACTION) != 0u) {
    const zo_buffer fractions = source(context, at++);
    fraction = (int8_t*)fractions.data;
    if (fraction != NULL) memset(fraction, 0, fractions.bytes);
  }
  const uint8_t* option = options + kOptionHeaderBytes;
  for (uint32_t t = 0; t < tensors; ++t, option += kOptionTensorBytes) {
    const int is_bias = ZO_WITH_BIASES && (zo_read_u16(option + 2) & ZO_OPTION_BIAS) != 0u;
    const zo_buffer weights = source(context, at++);
    if (ZO_WITH_MULTIPLIERS && (flags & ZO_OPTION_MULTIPLIER) != 0u) ++at;
    memcpy(weights.data, initial, weights.bytes);
    initial += weights.bytes;
    if (directory != NULL && t < directory->capacity) {
      zo_directory_entry* entry = &directory->entries[t];
      entry->weights = (int8_t*)weights.data;
      entry->fraction = is_bias ? NULL : fraction;
      entry->size = weights.bytes;
      entry->stream = zo_read_u16(option);
    }
    if (fraction != NULL && !is_bias) fraction += weights.bytes;
  }
  return ZO_OK;
}

void zo_directory_restore(zo_directory* directory) {
  if (directory->state != NULL) directory->state[kStateMagic] = 0;
}
#endif

/* A directory's entry of a tensor; null if it has none of this size. */
static const zo_directory_entry* find_entry(const zo_directory* directory, const zo_tensor* tensor) {
  const uint32_t count = directory->count < directory->capacity ? directory->count : directory->capacity;
  for (uint32_t i = 0; i < count; ++i) {
    const zo_directory_entry* entry = &directory->entries[i];
    if (entry->stream == tensor->stream && entry->size == tensor->size) return entry;
  }
  return NULL;
}

/* Lends nothing if a tensor is missing. */
static zo_status borrow_buffers(const weight_op* op, const zo_directory* owner, zo_buffer_lender lend) {
  weight_cursor cursor = first_tensor(op);
  while (next_tensor(&cursor)) {
    const zo_directory_entry* entry = find_entry(owner, &cursor.tensor);
    if (entry == NULL || entry->weights == NULL || (cursor.tensor.fraction != NULL && entry->fraction == NULL)) {
      return ZO_ERROR_ARGUMENT;
    }
  }
  lend(op->context, kState, owner->state);
  cursor = first_tensor(op);
  for (int32_t at = cursor.input; next_tensor(&cursor); at = cursor.input) {
    const zo_directory_entry* entry = find_entry(owner, &cursor.tensor);
    lend(op->context, at, entry->weights);
    /* Of the first tensor that has fractions: where the segment's begin. */
    if (cursor.tensor.fraction != NULL && cursor.fractions == cursor.tensor.size) {
      lend(op->context, kFraction, entry->fraction);
    }
  }
  return ZO_OK;
}

zo_status zo_weight_op_borrow(const uint8_t* options, size_t length, zo_buffer_source source, void* context,
                              const zo_directory* owner, zo_buffer_lender lend) {
  weight_op op;
  zo_status status = read_head(options, length, source, context, 1, &op);
  if (status != ZO_OK || (op.flags & ZO_OPTION_FIRST) == 0u) return status;
  if (owner == NULL || owner->state == NULL || lend == NULL) return ZO_ERROR_ARGUMENT;
  status = check_tensors(&op);
  return status == ZO_OK ? borrow_buffers(&op, owner, lend) : status;
}
