/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The Python package's table of the headers: the structs, functions and constants that it uses.
 * tflm_zo/core/loader.py makes ctypes structures and prototypes of it. The compiler refuses an
 * entry that differs from its header, and offsets and sizes are the compiler's, so the table cannot
 * differ from the headers.
 *
 * A part of the shared library alone: firmware has no use for it.
 */
#include <stddef.h>
#include <stdint.h>

#include "ops/core/backward/zo_backward.h"
#include "ops/core/backward/zo_conv_backprop.h"
#include "ops/core/backward/zo_errors.h"
#include "ops/core/backward/zo_pool_backprop.h"
#include "ops/core/graph/zo_command.h"
#include "ops/core/graph/zo_op.h"
#include "ops/core/log/zo_log.h"
#include "ops/core/log/zo_measurement.h"
#include "ops/core/log/zo_snapshot_log.h"
#include "ops/core/log/zo_store_units.h"
#include "ops/core/loss/zo_calibration.h"
#include "ops/core/loss/zo_loss.h"
#include "ops/core/nodes/zo_node_layer.h"
#include "ops/core/nodes/zo_node_update.h"
#include "ops/core/papers/zo_floor_log2_loss.h"
#include "ops/core/papers/zo_update_bits.h"
#include "ops/core/random/zo_stream.h"
#include "ops/core/run/zo_control.h"
#include "ops/core/run/zo_node_backward.h"
#include "ops/core/run/zo_node_run.h"
#include "ops/core/weights/zo_checksum.h"
#include "ops/core/weights/zo_perturb.h"
#include "ops/core/weights/zo_update.h"
#include "ops/core/zo_types.h"
#include "ops/tflite/zo_thread_workers.h"

/* One declaration: a constant, a function, a struct, or a field of the struct before it. */
typedef struct zo_declaration {
  const char* name;
  const char* type; /* "constant", "struct", a field's type, or "result(arguments)" */
  uint32_t offset;  /* of a field */
  uint32_t size;    /* of a struct or field; a constant's value */
} zo_declaration;

/* 0; does not compile if the types differ. */
#define SAME(a, b) (0u * sizeof(char[__builtin_types_compatible_p(a, b) ? 1 : -1]))
#define MEMBER(name) (((S*)0)->name)

#define CONSTANT(name) {#name, "constant", 0, name}
#define TEXT(name) #name
#define NAME(name) TEXT(name)
#define STRUCT {NAME(S), "struct", 0, sizeof(S)}
#define FIELD(type, name) {#name, #type, offsetof(S, name) + SAME(type, __typeof__(MEMBER(name))), sizeof(MEMBER(name))}
#define ARRAY(type, name) \
  {#name, #type "[]", offsetof(S, name) + SAME(type, __typeof__(MEMBER(name)[0])), sizeof(MEMBER(name))}
#define U32(name) FIELD(uint32_t, name)
#define FUNCTION(result, name, ...) \
  {#name, #result "(" #__VA_ARGS__ ")", SAME(result(__VA_ARGS__), __typeof__(name)), 0}

extern const zo_declaration zo_declarations[];

/* ops/abi/tflm_python.cc */
extern void zo_tflm_set_external_context(void* context);

/* One line for each would be twice as long. */
/* clang-format off */
const zo_declaration zo_declarations[] = {
  CONSTANT(ZO_MAX_QUERIES), CONSTANT(ZO_STREAM_TILE), CONSTANT(ZO_ALL_BLOCKS),
  CONSTANT(ZO_LOG_HEADER_BYTES), CONSTANT(ZO_LOG_FINGERPRINT_BYTES), CONSTANT(ZO_MEASUREMENT_BYTES),
  CONSTANT(ZO_LOG_UNIT_AT), CONSTANT(ZO_STORE_UNIT_MOST),
  CONSTANT(ZO_NODE_TASKS_MAX), CONSTANT(ZO_SNAPSHOT_RECORD_BYTES),
  CONSTANT(ZO_BACKWARD_MASK), CONSTANT(ZO_BACKWARD_LAYER), CONSTANT(ZO_BACKWARD_MAX_POOL),
  CONSTANT(ZO_BACKWARD_AVERAGE_POOL), CONSTANT(ZO_BACKWARD_FACTORS), CONSTANT(ZO_BACKWARD_SLICE),
  CONSTANT(ZO_BACKWARD_ADD),
  CONSTANT(ZO_BACKWARD_PLACE),
  CONSTANT(ZO_BACKWARD_LEVELS),
  CONSTANT(ZO_BACKWARD_PRODUCT),
  CONSTANT(ZO_BACKWARD_SUM),
  CONSTANT(ZO_SNAPSHOT_BEST_SLOT), CONSTANT(ZO_DIRECTORY_MAGIC), CONSTANT(ZO_PERCENTILE_MAX),
  CONSTANT(ZO_THRESHOLD_STEP),

  CONSTANT(ZO_OK), CONSTANT(ZO_ERROR_ARGUMENT), CONSTANT(ZO_ERROR_COMMAND),
  CONSTANT(ZO_ERROR_OPCODE), CONSTANT(ZO_ERROR_ORDER), CONSTANT(ZO_ERROR_BLOCK),
  CONSTANT(ZO_ERROR_DISTRIBUTION), CONSTANT(ZO_ERROR_HEADROOM), CONSTANT(ZO_ERROR_QUERIES),
  CONSTANT(ZO_ERROR_COEFFICIENT), CONSTANT(ZO_ERROR_FACTOR), CONSTANT(ZO_ERROR_CAPACITY),
  CONSTANT(ZO_ERROR_LABEL), CONSTANT(ZO_ERROR_OPTIONS), CONSTANT(ZO_ERROR_MEMORY),
  CONSTANT(ZO_ERROR_RUNTIME), CONSTANT(ZO_ERROR_SAMPLE), CONSTANT(ZO_ERROR_LOG),
  CONSTANT(ZO_ERROR_STORE), CONSTANT(ZO_ERROR_KERNEL),
  CONSTANT(ZO_RADEMACHER), CONSTANT(ZO_SPARSE_UNIFORM), CONSTANT(ZO_GAUSSIAN),
  CONSTANT(ZO_COORDINATE),
  CONSTANT(ZO_FLAG_LOSS), CONSTANT(ZO_FLAG_CHECKSUM), CONSTANT(ZO_FLAG_CONTINUE),
  CONSTANT(ZO_COMMAND_MAGIC), CONSTANT(ZO_OVER_SUM), CONSTANT(ZO_OVER_LARGEST),
  CONSTANT(ZO_SCHEDULE_LINEAR), CONSTANT(ZO_RUN_BITS), CONSTANT(ZO_RUN_RMS), CONSTANT(ZO_NODE_BITS), CONSTANT(ZO_NODE_RMS),
  CONSTANT(ZO_STEP_NORMALIZED), CONSTANT(ZO_ONE_SIDED),
  CONSTANT(ZO_TENSOR_INT8), CONSTANT(ZO_TENSOR_INT32),
  CONSTANT(ZO_NODES_PLAIN), CONSTANT(ZO_NODES_MAX_POOL), CONSTANT(ZO_NODES_MEAN),
  CONSTANT(ZO_ACTION_DONE),
  CONSTANT(ZO_TASK_NODES), CONSTANT(ZO_TASK_WEIGHTS), CONSTANT(ZO_TASK_SHARED_NODES),
  CONSTANT(ZO_PART_BYTES), CONSTANT(ZO_NODE_DONE), CONSTANT(ZO_NODE_FORWARD), CONSTANT(ZO_NODE_QUERY),
  CONSTANT(ZO_NODE_UPDATE), CONSTANT(ZO_NODE_RESTORE),

#define S zo_distribution
  STRUCT, FIELD(uint8_t, kind), FIELD(uint8_t, p_zero), FIELD(uint16_t, mu),
#undef S
#define S zo_logit_scale
  STRUCT, U32(scale_log2e), U32(scale),
#undef S
#define S zo_model_loss
  STRUCT, U32(kind), FIELD(int32_t, zero_point), FIELD(zo_logit_scale, scale), U32(places),
  FIELD(const uint8_t*, parts),
#undef S
#define S zo_calibration
  STRUCT, FIELD(int32_t*, largest), U32(room), U32(samples),
#undef S
#define S zo_perturb_terms
  STRUCT, FIELD(const zo_perturb_term*, terms), U32(count),
#undef S
#define S zo_tensor
  STRUCT, FIELD(int8_t*, weights), FIELD(int8_t*, fraction), FIELD(const int32_t*, multiplier),
  U32(size), U32(channels), U32(inner), U32(stream), FIELD(int32_t, limit), U32(type),
#undef S
#define S zo_query
  STRUCT, U32(seed), FIELD(int32_t, coefficient),
#undef S
#define S zo_scale
  STRUCT, U32(mantissa), FIELD(int32_t, exponent),
#undef S
#define S zo_command_writer
  STRUCT, FIELD(int32_t*, words), U32(capacity), U32(length),
#undef S
#define S zo_limits
  STRUCT, U32(headroom), U32(max_queries), U32(blocks),
#undef S
#define S zo_control_settings
  STRUCT, U32(run_seed), U32(steps), U32(samples), U32(batch), U32(parts), U32(queries),
  U32(estimator), U32(rule), FIELD(zo_distribution, distribution), U32(rate), U32(final_rate),
  U32(schedule), U32(warmup_steps), U32(decay), U32(decay_steps), U32(clip), U32(gradient_norm),
  U32(blocks), ARRAY(uint32_t, stage_steps), ARRAY(uint32_t, stage_p_zero),
#undef S
#define S zo_decays
  STRUCT, U32(count), U32(rate),
#undef S
#define S zo_control
  STRUCT, FIELD(const zo_control_settings*, settings), FIELD(const uint8_t*, block_segments),
  U32(step), U32(query), U32(phase), U32(part), U32(pending), U32(based),
  FIELD(int64_t, base), FIELD(int64_t, plus), FIELD(int64_t, minus), FIELD(int64_t, total),
  FIELD(int64_t, mean_square), ARRAY(int64_t, difference), ARRAY(zo_query, queries),
  FIELD(zo_decays, decays),
#undef S
#define S zo_request
  STRUCT, U32(action), U32(step), U32(first_sample), U32(start_segment),
#undef S
#define S zo_report
  STRUCT, U32(step_done), U32(step), FIELD(int32_t, mean_loss), U32(rate),
#undef S
#define S zo_node_layer
  STRUCT, U32(form), U32(in_h), U32(in_w), U32(in_c), U32(k_h), U32(k_w), U32(stride_h),
  U32(stride_w), U32(dilation_h), U32(dilation_w), U32(pad_top), U32(pad_left), U32(out_h),
  U32(out_w), U32(out_c), U32(node_h), U32(node_w), U32(pool_h), U32(pool_w), U32(pool_stride_h),
  U32(pool_stride_w), U32(pool_pad_top), U32(pool_pad_left), FIELD(int32_t, input_zero_point),
  FIELD(int32_t, low), FIELD(int32_t, high), U32(unmasked), U32(depthwise),
#undef S
#define S zo_node_evidence
  STRUCT, U32(samples), U32(queries), FIELD(const int8_t*, inputs), FIELD(const uint8_t*, routes),
  FIELD(const int32_t*, differences), FIELD(const uint32_t*, seeds), FIELD(const int16_t*, errors),
  FIELD(const int8_t*, exponents),
#undef S
#define S zo_error_factors
  STRUCT, FIELD(const int16_t*, mantissas), U32(channels), FIELD(int32_t, exponent),
#undef S
#define S zo_pool
  STRUCT, U32(in_h), U32(in_w), U32(channels), U32(out_h), U32(out_w), U32(k_h), U32(k_w),
  U32(stride_h), U32(stride_w), U32(pad_top), U32(pad_left),
#undef S
#define S zo_error_product
  STRUCT, U32(repeat), U32(length), U32(other_repeat), U32(other_length), FIELD(int32_t, zero_point),
#undef S
#define S zo_error_field
  STRUCT, FIELD(int16_t*, errors), FIELD(int8_t*, exponents), U32(count), U32(kept),
#undef S
#define S zo_backward_step
  STRUCT, U32(kind), U32(from), U32(to), FIELD(int32_t, low), FIELD(int32_t, high), U32(blocks),
  U32(pitch), U32(offset), U32(length), FIELD(const zo_node_layer*, layer),
  FIELD(const zo_pool*, pool), FIELD(const zo_error_product*, product), FIELD(const int16_t*, mantissas),
  U32(channels), FIELD(int32_t, exponent),
#undef S
#define S zo_backward
  STRUCT, FIELD(const zo_backward_step*, steps), FIELD(const zo_error_field*, fields),
  U32(step_count), U32(field_count), FIELD(uint32_t*, norms), FIELD(int32_t*, scratch),
  FIELD(const int16_t* const*, turned), FIELD(void*, memory),
#undef S
#define S zo_node_step
  STRUCT, U32(rule), U32(rate), U32(clip), U32(seed), U32(bits), U32(rows), FIELD(zo_scale, gain),
  FIELD(zo_scale, per_error), FIELD(zo_scale, mean_square), FIELD(const zo_workers*, workers),
#undef S
#define S zo_node_task
  STRUCT, U32(kind), FIELD(zo_node_layer, layer), U32(start_segment), U32(queries), U32(in_tail),
  U32(mu), U32(rate), FIELD(zo_scale, gain), U32(boundary_bytes),
  FIELD(int8_t*, inputs), FIELD(uint8_t*, routes), FIELD(int8_t*, nodes),
  FIELD(int32_t*, differences), FIELD(int16_t*, errors), FIELD(int8_t*, exponents),
  FIELD(int64_t*, sums), FIELD(zo_scale, mean_square),
#undef S
#define S zo_node_settings
  STRUCT, FIELD(zo_control_settings, common), U32(tasks), U32(first_segment), U32(weight_clip),
  U32(rule), U32(exact_rule), ARRAY(uint32_t, exact_bits), U32(weight_bits), U32(rows_least),
  U32(rows_most),
#undef S
#define S zo_node_run
  STRUCT, FIELD(zo_node_settings, settings), FIELD(zo_node_task*, tasks), U32(step), U32(stage),
  U32(part), U32(task), U32(query), U32(side), U32(moved), FIELD(int64_t, total),
  FIELD(int64_t, base), FIELD(int32_t, largest_loss), U32(of_classes),
  FIELD(uint64_t, error_squares), FIELD(zo_decays, decays),
  FIELD(const zo_workers*, workers),
#undef S
#define S zo_node_request
  STRUCT, U32(action), U32(step), U32(task), U32(start_segment), U32(first_sample),
#undef S
#define S zo_log_header
  STRUCT, ARRAY(uint8_t, fingerprint), U32(measure_every),
#undef S
#define S zo_log_record
  STRUCT, U32(step), FIELD(int32_t, mean_loss), FIELD(int64_t, mean_square),
  ARRAY(int32_t, coefficients),
#undef S
#define S zo_snapshot_header
  STRUCT, ARRAY(uint8_t, fingerprint), U32(interval), U32(weight_bytes), U32(data_checksum),
  U32(measure_every),
#undef S
#define S zo_snapshot_task
  STRUCT, U32(tensor), U32(tensors), U32(kind), U32(queries), U32(mu), U32(rate),
  FIELD(zo_scale, gain),
#undef S
#define S zo_measurement
  STRUCT, U32(step), U32(samples), FIELD(int64_t, loss), U32(correct), U32(data_checksum),
#undef S
#define S zo_directory_entry
  STRUCT, FIELD(int8_t*, weights), FIELD(int8_t*, fraction), U32(size), U32(stream),
#undef S
#define S zo_directory
  STRUCT, U32(magic), U32(capacity), U32(count), FIELD(zo_directory_entry*, entries),
  FIELD(int32_t*, state),
#undef S

  FUNCTION(const char*, zo_status_text, zo_status),
  FUNCTION(uint32_t, zo_query_seed, uint32_t, uint32_t, uint32_t),
  FUNCTION(zo_status, zo_distribution_check, zo_distribution),
  FUNCTION(int32_t, zo_distribution_reach, zo_distribution),
  FUNCTION(int32_t, zo_distribution_z_max, zo_distribution),
  FUNCTION(zo_status, zo_direction, zo_distribution, uint32_t, uint32_t, uint32_t, uint32_t,
           int8_t*),
  FUNCTION(zo_status, zo_perturb_s8, const zo_tensor*, zo_distribution, const zo_perturb_terms*),
  FUNCTION(zo_status, zo_update_s8, const zo_tensor*, zo_distribution, const zo_perturb_terms*,
           const zo_query*, uint32_t, uint32_t*),
  FUNCTION(zo_status, zo_replay_s8, const zo_tensor*, zo_distribution, const zo_query*, uint32_t,
           uint32_t, uint32_t*),
  FUNCTION(zo_status, zo_update_bits_s8, const zo_tensor*, zo_distribution, uint32_t, int32_t,
           uint32_t, uint32_t*),
  FUNCTION(uint32_t, zo_checksum, const zo_tensor*),
  FUNCTION(uint32_t, zo_fnv1a, uint32_t, const void*, uint32_t), CONSTANT(ZO_FNV1A_BEGIN),
  FUNCTION(zo_status, zo_cross_entropy_s8, const int8_t*, uint32_t, uint32_t, uint32_t, zo_logit_scale, const
           int32_t*, int32_t*),
  FUNCTION(void, zo_join_losses, uint32_t, uint32_t, const int32_t*, const int32_t*, int32_t*),
  FUNCTION(zo_status, zo_cross_entropy_error_s8, const int8_t*, uint32_t, uint32_t, zo_logit_scale,
           const int32_t*, int16_t*),
  FUNCTION(zo_status, zo_binary_cross_entropy_s8, const int8_t*, uint32_t, uint32_t, int32_t,
           zo_logit_scale, const int32_t*, int32_t*),
  FUNCTION(zo_status, zo_binary_cross_entropy_error_s8, const int8_t*, uint32_t, uint32_t, int32_t,
           zo_logit_scale, const int32_t*, int16_t*),
  FUNCTION(uint32_t, zo_part_labels, const uint8_t*, uint32_t, uint32_t),
  FUNCTION(zo_status, zo_sum_loss_s8, const uint8_t*, uint32_t, const int8_t*, uint32_t, uint32_t, const int32_t*,
           int32_t*),
  FUNCTION(zo_status, zo_sum_loss_error_s8, const uint8_t*, uint32_t, const int8_t*, uint32_t, uint32_t,
           const int32_t*, int16_t*),
  FUNCTION(zo_status, zo_mean_squared_error_s8, const int8_t*, const int8_t*, uint32_t, uint32_t,
           int32_t, int32_t, int32_t*),
  FUNCTION(zo_status, zo_mean_squared_error_error_s8, const int8_t*, const int8_t*, uint32_t,
           uint32_t, int16_t*),
  FUNCTION(zo_status, zo_floor_log2_loss_s8, const int8_t*, uint32_t, uint32_t, zo_logit_scale,
           const int32_t*, int32_t*),
  FUNCTION(uint32_t, zo_calibration_room, uint32_t, uint32_t),
  FUNCTION(void, zo_calibration_add, zo_calibration*, int32_t),
  FUNCTION(zo_status, zo_calibration_threshold, const zo_calibration*, uint32_t, int32_t*),
  FUNCTION(zo_status, zo_command_begin, zo_command_writer*, int32_t*, uint32_t, uint32_t),
  FUNCTION(zo_status, zo_command_restore, zo_command_writer*, uint32_t),
  FUNCTION(zo_status, zo_command_replay, zo_command_writer*, uint32_t, zo_distribution, const
           zo_query*, uint32_t, uint32_t),
  FUNCTION(zo_status, zo_command_update, zo_command_writer*, uint32_t, zo_distribution, const
           zo_perturb_terms*, const zo_query*, uint32_t),
  FUNCTION(zo_status, zo_command_perturb, zo_command_writer*, uint32_t, zo_distribution, const
           zo_perturb_terms*),
  FUNCTION(zo_status, zo_command_check, const int32_t*, uint32_t, const zo_limits*),
  FUNCTION(uint32_t, zo_command_flags, const int32_t*),
  FUNCTION(uint32_t, zo_command_steps, const int32_t*, zo_opcode),
  FUNCTION(zo_status, zo_command_execute, const int32_t*, zo_opcode, const zo_tensor*, uint32_t,
           const int8_t*, uint32_t*),
  FUNCTION(zo_status, zo_control_init, zo_control*, const zo_control_settings*, const uint8_t*),
  FUNCTION(zo_status, zo_control_resume, zo_control*, uint32_t, int64_t),
  FUNCTION(zo_status, zo_control_next, zo_control*, int32_t*, uint32_t, zo_request*),
  FUNCTION(zo_status, zo_control_report, zo_control*, const int32_t*, uint32_t, zo_report*),
  FUNCTION(zo_status, zo_control_report_all, zo_control*, uint32_t, const int32_t*, zo_report*),
  FUNCTION(zo_status, zo_control_settle, zo_control*, int32_t*, uint32_t, uint32_t*),
  FUNCTION(zo_status, zo_control_abandon, zo_control*, uint32_t, int32_t*, uint32_t),
  FUNCTION(zo_status, zo_control_withdraw, zo_control*, int64_t, int32_t*, uint32_t),
  FUNCTION(zo_status, zo_control_decide, zo_control*, const int64_t*, int32_t, zo_report*),
  FUNCTION(zo_distribution, zo_control_distribution, const zo_control_settings*, uint32_t),
  FUNCTION(uint32_t, zo_control_items, const zo_control_settings*, uint32_t, const int32_t*,
           zo_query*),
  FUNCTION(uint32_t, zo_control_words, const zo_control_settings*),
  FUNCTION(uint32_t, zo_control_rate, const zo_control_settings*, uint32_t, zo_decays*),
  FUNCTION(uint32_t, zo_sample_at, const zo_control_settings*, uint32_t),
  FUNCTION(void, zo_samples_at, const zo_control_settings*, uint32_t, uint32_t, uint32_t*),
  FUNCTION(zo_status, zo_node_layer_check, const zo_node_layer*),
  FUNCTION(uint32_t, zo_node_count, const zo_node_layer*),
  FUNCTION(uint32_t, zo_node_input_bytes, const zo_node_layer*),
  FUNCTION(uint32_t, zo_node_route_bytes, const zo_node_layer*),
  FUNCTION(uint32_t, zo_node_scratch_values, const zo_node_layer*),
  FUNCTION(uint32_t, zo_node_scratch_values_of, const zo_node_layer*, const zo_workers*),
  FUNCTION(zo_workers*, zo_thread_workers_create, uint32_t), FUNCTION(void, zo_thread_workers_free, zo_workers*),
  FUNCTION(zo_status, zo_route_nodes_s8, const zo_node_layer*, uint32_t, const int8_t*, uint8_t*),
  FUNCTION(zo_status, zo_perturb_nodes_s8, const zo_node_layer*, uint32_t, uint32_t, const int8_t*,
           uint32_t, int32_t, int8_t*),
  FUNCTION(zo_status, zo_node_update_s8, const zo_node_layer*, const zo_tensor*, uint32_t, const
           zo_node_evidence*, zo_node_step*, int32_t*, uint32_t*),
  FUNCTION(zo_status, zo_mask_errors, uint32_t, const int8_t*, int32_t, int32_t, int16_t*),
  FUNCTION(zo_status, zo_scale_errors, const zo_error_factors*, uint32_t, const int16_t*, int8_t,
           int16_t*, int8_t*),
  FUNCTION(zo_status, zo_add_errors, uint32_t, const int16_t*, int8_t, int16_t*, int8_t*),
  FUNCTION(zo_status, zo_slice_errors, uint32_t, uint32_t, uint32_t, uint32_t, const int16_t*,
           int16_t*),
  FUNCTION(zo_status, zo_place_errors, uint32_t, uint32_t, uint32_t, uint32_t, const int16_t*,
           uint32_t, int16_t*),
  FUNCTION(zo_status, zo_level_errors, const int16_t*, int32_t, uint32_t, const int8_t*,
           const int16_t*, int8_t, int16_t*, int8_t*),
  FUNCTION(zo_status, zo_product_errors, const zo_error_product*, const zo_error_factors*, uint32_t,
           const int8_t*, const int16_t*, int8_t, int16_t*, int8_t*),
  FUNCTION(zo_status, zo_max_pool_backprop, const zo_pool*, const int8_t*, const int16_t*, int8_t,
           int16_t*, int8_t*),
  FUNCTION(zo_status, zo_average_pool_backprop, const zo_pool*, const int16_t*, int8_t, int16_t*,
           int8_t*, int32_t*),
  FUNCTION(uint32_t, zo_pool_scratch_values, const zo_pool*),
  FUNCTION(zo_status, zo_conv_backprop_norm_s8, const zo_node_layer*, const int8_t*, int32_t*,
           uint32_t*),
  FUNCTION(zo_status, zo_conv_backprop_s8, const zo_node_layer*, const int8_t*, uint32_t, const
           int16_t*, const int16_t*, int8_t, int16_t*, int8_t*, int32_t*),
  FUNCTION(uint32_t, zo_conv_backprop_scratch_values, const zo_node_layer*),
  FUNCTION(uint32_t, zo_backward_scratch_values, const zo_backward_step*, uint32_t),
  FUNCTION(zo_status, zo_backward_check, const zo_backward*),
  FUNCTION(zo_status, zo_backward_norms, const zo_backward*, const int8_t* const*),
  FUNCTION(zo_status, zo_backward_run, const zo_backward*, uint32_t, uint32_t, uint32_t, uint32_t, const int8_t* const*),
  FUNCTION(zo_status, zo_backward_run_divided, const zo_backward*, uint32_t, uint32_t, uint32_t, uint32_t,
           const int8_t* const*, const zo_workers*),
  FUNCTION(zo_status, zo_node_run_backward, const zo_node_run*, const zo_backward*, uint32_t, uint32_t,
           const int8_t* const*),
  FUNCTION(zo_status, zo_node_run_init, zo_node_run*, const zo_node_settings*, zo_node_task*),
  FUNCTION(zo_status, zo_node_run_resume, zo_node_run*, uint32_t, int32_t, const zo_scale*),
  FUNCTION(zo_status, zo_node_run_next, const zo_node_run*, zo_node_request*),
  FUNCTION(zo_status, zo_node_run_capture, zo_node_run*, uint32_t, const int8_t*, const int8_t*,
           const int8_t*),
  FUNCTION(zo_status, zo_node_run_capture_head, zo_node_run*, uint32_t, const int8_t*, const
           int8_t*, const zo_model_loss*, const void*),
  FUNCTION(zo_status, zo_node_run_capture_boundary, zo_node_run*, uint32_t, const int8_t*),
  FUNCTION(zo_status, zo_node_run_perturb, const zo_node_run*, int8_t*),
  FUNCTION(uint32_t, zo_node_run_evaluations, const zo_node_run*),
  FUNCTION(zo_status, zo_node_run_perturb_all, const zo_node_run*, uint32_t, int8_t*),
  FUNCTION(zo_status, zo_node_run_report_all, zo_node_run*, uint32_t, const int32_t*, zo_report*),
  FUNCTION(zo_status, zo_node_run_perturb_weights, zo_node_run*, const zo_tensor*, uint32_t),
  FUNCTION(zo_status, zo_node_run_report, zo_node_run*, const int32_t*, uint32_t, zo_report*),
  FUNCTION(zo_status, zo_node_run_update, zo_node_run*, const zo_tensor*, uint32_t, int32_t*,
           uint32_t*, zo_report*),
  FUNCTION(zo_status, zo_node_run_update_weights, zo_node_run*, const zo_tensor*, uint32_t,
           uint32_t*, zo_report*),
  FUNCTION(zo_status, zo_node_run_abandon, zo_node_run*, const zo_tensor*, uint32_t),
  FUNCTION(uint32_t, zo_log_record_bytes, uint32_t),
  FUNCTION(void, zo_log_write_header, const zo_log_header*, const zo_control_settings*, uint8_t*),
  FUNCTION(zo_status, zo_log_read_header, const uint8_t*, zo_log_header*, zo_control_settings*),
  FUNCTION(void, zo_log_write_record, const zo_control*, int32_t, uint32_t, uint8_t*),
  FUNCTION(zo_status, zo_log_read_record, const uint8_t*, const zo_control_settings*, uint32_t,
           zo_log_record*),
  FUNCTION(uint32_t, zo_snapshot_header_bytes, uint32_t),
  FUNCTION(uint32_t, zo_snapshot_bytes, uint32_t, uint32_t),
  FUNCTION(uint32_t, zo_snapshot_slots, uint32_t),
  FUNCTION(void, zo_snapshot_write_header, const zo_snapshot_header*, const zo_node_settings*, const
           zo_snapshot_task*, uint8_t*),
  FUNCTION(zo_status, zo_snapshot_read_header, const uint8_t*, uint32_t, zo_snapshot_header*,
           zo_node_settings*, zo_snapshot_task*),
  FUNCTION(void, zo_snapshot_write_head, const zo_node_run*, uint32_t, uint32_t, uint8_t*),
  FUNCTION(zo_status, zo_snapshot_read, const uint8_t*, uint32_t, const zo_node_settings*, const
           zo_snapshot_task*, uint32_t, uint32_t*, uint32_t*, int32_t*, zo_scale*),
  FUNCTION(void, zo_snapshot_write_record, uint32_t, int32_t, uint32_t, uint8_t*),
  FUNCTION(zo_status, zo_snapshot_read_record, const uint8_t*, uint32_t, uint32_t*, int32_t*),
  FUNCTION(int, zo_measurement_is_due, uint32_t, uint32_t, uint32_t),
  FUNCTION(uint32_t, zo_measurement_number, uint32_t, uint32_t),
  FUNCTION(int, zo_measurement_is_better, const zo_measurement*, const zo_measurement*, uint32_t),
  FUNCTION(void, zo_measurement_write, const zo_measurement*, uint32_t, uint8_t*),
  FUNCTION(zo_status, zo_measurement_read, const uint8_t*, uint32_t, zo_measurement*),
  FUNCTION(void, zo_tflm_set_external_context, void*),

  {NULL, NULL, 0, 0},
};
/* clang-format on */
