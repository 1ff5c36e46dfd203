/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/device/zo_node_trainer.h"

#include "ops/core/zo_features.h"
#include "ops/device/zo_carver.h"
#include "ops/device/zo_store_writer.h"
#if ZO_WITH_BACKWARD
#include "ops/device/zo_backward_tail.h"
#endif

namespace tflm_zo {
namespace {

struct Workspace {
  zo_node_task* tasks;
  zo_tensor* tensors;
  int32_t* scratch;
  uint8_t* labels;
  BackwardTail* tail;
};

// Tests of a task's kind, among those of the build.
bool PerturbsWeights(const TaskInfo& task) { return ZO_WITH_WEIGHT_TASKS && task.kind == ZO_TASK_WEIGHTS; }

bool IsExact(const TaskInfo& task) { return ZO_WITH_EXACT_TASKS && task.kind == ZO_TASK_NODES && task.queries == 0; }

bool IsInTail(const TaskInfo& task) { return IsExact(task) && task.in_tail != 0; }

bool IsHead(const TaskInfo& task) { return IsExact(task) && task.in_tail == 0; }

size_t HeaderWords(uint32_t tasks) {
  // Two headers, to compare them, and the tasks of one.
  return zo_snapshot_header_bytes(tasks) / 2 + tasks * sizeof(zo_snapshot_task) / 4;
}

#if ZO_WITH_BACKWARD
// The program of the run's exact tail, or null.
const BackwardInfo* BackwardOf(const zo_node_settings& settings, const TaskInfo* infos) {
  for (uint32_t i = 0; i < settings.tasks; ++i) {
    if (infos[i].backward != nullptr) return infos[i].backward;
  }
  return nullptr;
}
#endif

// `network` may be null, to count alone.
Workspace Carve(const ModelInfo& info, const zo_node_settings& settings, const TaskInfo* infos, const Network* network,
                Carver* carver) {
  const uint32_t batch = settings.common.batch;
  const uint32_t samples = batch * settings.common.parts;
  Workspace space = {};
  space.tasks = carver->Take<zo_node_task>(settings.tasks);
  size_t scratch = HeaderWords(settings.tasks);
  uint32_t tensors = 0;
  bool has_head = false;
#if ZO_WITH_BACKWARD
  const BackwardInfo* backward = BackwardOf(settings, infos);
  if (backward != nullptr) {
    space.tail = BackwardTail::Take(*backward, samples, network, carver);
    const size_t values = zo_backward_scratch_values(backward->steps, backward->step_count);
    if (values > scratch) scratch = values;
  }
#endif
  for (uint32_t i = 0; i < settings.tasks; ++i) {
    const TaskInfo& from = infos[i];
    zo_node_task task = {};
    task.kind = from.kind;
    task.layer = from.layer;
    task.start_segment = from.start_segment;
    task.queries = from.queries;
    task.in_tail = from.in_tail;
    task.mu = from.mu;
    task.rate = from.rate;
    task.gain = from.gain;
    task.boundary_bytes = from.boundary_bytes;
    if (PerturbsWeights(from)) {
      task.sums = carver->Take<int64_t>(from.queries);
      if (from.tensors > tensors) tensors = from.tensors;
    } else {
      const zo_node_layer* layer = &from.layer;
      if (TypeOf(info, from.first_tensor) != ZO_TENSOR_INT32) {
        // They stay where the network keeps them, one part behind the other.
        task.inputs = network == nullptr ? nullptr : network->kept(from.input_segment);
      }
      if (!IsInTail(from)) task.routes = carver->Take<uint8_t>(samples * zo_node_route_bytes(layer));
      if (from.queries > 0) {
        task.differences = carver->Take<int32_t>(from.queries * samples);
      } else if (IsExact(from) && from.backward == nullptr) {
        task.errors = carver->Take<int16_t>(samples * zo_node_count(layer));
      }
#if ZO_WITH_BACKWARD
      if (from.backward != nullptr && space.tail != nullptr) {
        const zo_error_field& field = space.tail->program.fields[from.field];
        task.errors = field.errors;
        task.exponents = field.exponents;
      }
#endif
      const size_t values = zo_node_scratch_values(layer);
      if (values > scratch) scratch = values;
      has_head = has_head || IsHead(from);
    }
    if (carver->fits() && space.tasks != nullptr) space.tasks[i] = task;
  }
  space.tensors = carver->Take<zo_tensor>(tensors);
  space.scratch = carver->Take<int32_t>(scratch);
  space.labels = carver->Take<uint8_t>(has_head ? batch * info.label_bytes : 0);
#if ZO_WITH_BACKWARD
  if (space.tail != nullptr) space.tail->program.scratch = space.scratch;
#endif
  return space;
}

}  // namespace

size_t NodeTrainer::WorkspaceBytes(const ModelInfo& info, const zo_node_settings& settings, const TaskInfo* tasks) {
  Carver carver(nullptr, 0);
  Carve(info, settings, tasks, nullptr, &carver);
  return carver.used();
}

zo_status NodeTrainer::Init(Network* network, const zo_node_settings* settings, const TaskInfo* tasks,
                            uint32_t interval, void* workspace, size_t workspace_bytes, const SampleSource& source) {
  const ModelInfo& info = network->info();
  if (interval == 0 || workspace == nullptr || settings->common.batch != info.batch) {
    return ZO_ERROR_ARGUMENT;
  }
  Carver carver(workspace, workspace_bytes);
  const Workspace space = Carve(info, *settings, tasks, network, &carver);
  if (!carver.fits()) return ZO_ERROR_MEMORY;
  *this = {};
  infos_ = tasks;
  tasks_ = space.tasks;
  tensors_ = space.tensors;
  scratch_ = space.scratch;
  labels_ = space.labels;
  tail_ = space.tail;
  interval_ = interval;
  source_ = source;
#if ZO_WITH_BACKWARD
  if (tail_ != nullptr) {
    const zo_status status = zo_backward_check(&tail_->program);
    if (status != ZO_OK) return status;
  }
#endif
  const zo_status status = zo_node_run_init(&run_, settings, tasks_);
  if (status != ZO_OK) return status;
  network_ = network;
  is_ready_ = true;
  return ZO_OK;
}

// --- Steps ---------------------------------------------------------------------------------------

uint32_t NodeTrainer::Tensors(uint32_t task, zo_tensor* tensors) const {
  const TaskInfo& info = infos_[task];
  for (uint32_t i = 0; i < info.tensors; ++i) tensors[i] = network_->tensor(info.first_tensor + i);
  return info.tensors;
}

zo_status NodeTrainer::Capture(uint32_t task, const Feed& feed) {
  const TaskInfo& info = infos_[task];
  zo_node_task& t = tasks_[task];
#if ZO_WITH_WEIGHT_TASKS
  if (PerturbsWeights(info) && info.boundary_bytes == 0) return ZO_OK;  // queries start with inputs
#endif
  // Queries start from values that the network keeps.
  t.nodes = network_->kept(info.start_segment);
#if ZO_WITH_WEIGHT_TASKS
  if (PerturbsWeights(info)) return zo_node_run_capture_boundary(&run_, task, t.nodes);
#endif
  // Biases alone are trained without the layer's inputs.
  int8_t* inputs = t.inputs == nullptr ? nullptr : network_->kept(info.input_segment);
  if (t.inputs != nullptr && info.input_segment == 0 && network_->info().shared_arena > 0) {
    inputs = t.inputs;  // read before the update
  } else if (t.inputs != nullptr && info.input_segment == 0) {
    // The network's inputs are overwritten by its activations: once more, to where they are kept.
    inputs = t.inputs + run_.part * feed.order->batch * zo_node_input_bytes(&t.layer);
    const zo_status status = network_->ReadInputs(feed, inputs);
    if (status != ZO_OK) return status;
  }
  if (!IsHead(info)) {
    return zo_node_run_capture(&run_, task, inputs, network_->kept(info.output_segment), t.nodes);
  }
  const zo_status status = network_->ReadLabels(feed, labels_);
  if (status != ZO_OK) return status;
  return zo_node_run_capture_head(&run_, task, inputs, t.nodes, &network_->info().loss, labels_);
}

zo_status NodeTrainer::Forward(const zo_node_request& request) {
  const Feed feed = {&source_, &run_.settings.common, request.first_sample, Feed::kInOrder};
  zo_status status = network_->Run(&feed, true, 0, true);
  for (uint32_t i = 0; status == ZO_OK && i < run_.settings.tasks; ++i) {
    status = Capture(i, feed);
  }
#if ZO_WITH_BACKWARD
  if (status == ZO_OK && tail_ != nullptr) {
    tail_->Begin();
    if (!UpdatesOnTheWay()) status = tail_->LeadBack(run_, network_, feed, tail_->info->step_count);
  }
#endif
  zo_report none;
  return status == ZO_OK ? zo_node_run_report(&run_, network_->losses(), run_.settings.common.batch, &none) : status;
}

zo_status NodeTrainer::Query(const zo_node_request& request) {
  zo_status status = ZO_OK;
  if (request.start_segment > 0) {
    status = zo_node_run_perturb(&run_, network_->entering(request.start_segment));
  }
#if ZO_WITH_WEIGHT_TASKS
  if (status == ZO_OK && PerturbsWeights(infos_[request.task])) {
    const uint32_t count = Tensors(request.task, tensors_);
    status = zo_node_run_perturb_weights(&run_, tensors_, count);
  }
#endif
  if (status != ZO_OK) return status;
  const Feed feed = {&source_, &run_.settings.common, request.first_sample, Feed::kInOrder};
  status = network_->Run(&feed, true, request.start_segment, false);
  if (status != ZO_OK) return status;
  zo_report none;
  return zo_node_run_report(&run_, network_->losses(), run_.settings.common.batch, &none);
}

zo_status NodeTrainer::Update(const zo_node_request& request, zo_report* report) {
#if ZO_WITH_WEIGHT_TASKS
  if (PerturbsWeights(infos_[request.task])) {
    const uint32_t count = Tensors(request.task, tensors_);
    return zo_node_run_update_weights(&run_, tensors_, count, nullptr, report);
  }
#endif
#if ZO_WITH_BACKWARD
  const TaskInfo& info = infos_[request.task];
  int8_t* const inputs = tasks_[request.task].inputs;
  if (UpdatesOnTheWay()) {
    const Feed feed = {&source_, &run_.settings.common, request.first_sample, Feed::kInOrder};
    zo_status status = tail_->LeadBack(run_, network_, feed, info.steps);
    const bool reads = inputs != nullptr && info.input_segment == 0 && network_->info().shared_arena > 0;
    if (status == ZO_OK && reads) status = network_->ReadInputs(feed, inputs);
    if (status != ZO_OK) return status;
    if (info.copy_at >= 0) tail_->CopyFilter(network_->place(info.copy_at), network_->tensor(info.first_tensor).size);
  }
#endif
  zo_tensor tensors[2];  // a layer's filter, its biases, or both
  const uint32_t count = Tensors(request.task, tensors);
  const zo_status status = zo_node_run_update(&run_, tensors, count, scratch_, nullptr, report);
#if ZO_WITH_BACKWARD
  if (status == ZO_OK && info.bits_at >= 0) tail_->KeepBits(info.bits_step, inputs, network_->place(info.bits_at));
#endif
  return status;
}

zo_status NodeTrainer::Abandon(zo_status reason) {
  zo_node_request request;
  zo_status status = zo_node_run_next(&run_, &request);
  if (status != ZO_OK) return status;
  const bool perturbs = request.action == ZO_NODE_QUERY && PerturbsWeights(infos_[request.task]);
  const uint32_t count = perturbs ? Tensors(request.task, tensors_) : 0;
  status = zo_node_run_abandon(&run_, tensors_, count);
  return status == ZO_OK ? reason : status;
}

zo_status NodeTrainer::TrainSlice(zo_report* report) {
  *report = {};
  if (!is_ready_) return ZO_ERROR_ORDER;
  zo_status status = IsInStep() ? ZO_OK : BeginStep();
  if (status != ZO_OK) return status;
  zo_node_request request;
  status = zo_node_run_next(&run_, &request);
  // Weights that a query has moved are not left to anybody else.
  for (bool goes_on = true; status == ZO_OK && goes_on;) {
    if (request.action == ZO_NODE_DONE) return ZO_OK;
    network_->SetPart(run_.part);
    const bool moves = MovesWeights(request);
    status = Answer(request, report);
    if (status != ZO_OK) return request.action == ZO_NODE_UPDATE ? status : Abandon(status);
    if (report->step_done != 0) {
      mean_loss_ = report->mean_loss;
      is_ending_ = true;
      return EndStep();
    }
    status = zo_node_run_next(&run_, &request);
    goes_on = moves && MovesWeights(request);
  }
  return status;
}

bool NodeTrainer::HasRoomInStep() const {
  const ModelInfo& info = network_->info();
  if (info.shared_arena > 0) return false;
  for (uint32_t k = 0; k < info.segment_count; ++k) {
    const Segment& segment = info.segments[k];
    if (segment.recomputed != 0 || (segment.kept_at >= 0 && segment.kept_at == segment.passing_at)) return false;
  }
  return true;
}

// Called before the first invoke of a step.
zo_status NodeTrainer::BeginStep() {
  if (is_ending_) return EndStep();
  if (log_ != nullptr && !at_.Is(*log_)) {
    const zo_status status = WriteHeader(*log_);
    if (status != ZO_OK) return status;
  }
  return MeasureWhereDue();
}

bool NodeTrainer::MovesWeights(const zo_node_request& request) const {
  return (request.action == ZO_NODE_QUERY || request.action == ZO_NODE_RESTORE) &&
         PerturbsWeights(infos_[request.task]);
}

// Executes a request of the run.
zo_status NodeTrainer::Answer(const zo_node_request& request, zo_report* report) {
  switch (request.action) {
    case ZO_NODE_FORWARD:
      return Forward(request);
    case ZO_NODE_QUERY:
      return Query(request);
#if ZO_WITH_WEIGHT_TASKS
    case ZO_NODE_RESTORE:
      return zo_node_run_perturb_weights(&run_, tensors_, Tensors(request.task, tensors_));
#endif
    default:
      return Update(request, report);
  }
}

// Finishes a step: its record, a measurement if one is due, and a snapshot if one is due. The next
// call repeats failed parts.
zo_status NodeTrainer::EndStep() {
  zo_status status = WriteRecord();
  // A measurement comes before the snapshot of its step: a run that is resumed there has it.
  if (status == ZO_OK) status = MeasureWhereDue();
  const bool is_due = log_ != nullptr && (run_.step % interval_ == 0 || done());
  if (status == ZO_OK && is_due) status = WriteSnapshot();
  is_ending_ = status != ZO_OK;
  return status;
}

}  // namespace tflm_zo
