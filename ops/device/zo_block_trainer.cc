/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0 */
#include "ops/device/zo_block_trainer.h"

#include <initializer_list>

namespace tflm_zo {
namespace {

// Some of the samples, under numbers of their own.
struct Selection {
  const SampleSource* source;
  const uint32_t* held_out;
  uint32_t count;
};

bool ReadHeldOut(void* context, uint32_t sample, int8_t* const* inputs, void* label) {
  const auto* chosen = static_cast<const Selection*>(context);
  const SampleSource& all = *chosen->source;
  return all.read(all.context, chosen->held_out[sample], inputs, label);
}

// The others, in their order.
bool ReadRest(void* context, uint32_t sample, int8_t* const* inputs, void* label) {
  const auto* chosen = static_cast<const Selection*>(context);
  // How many held-out samples there are before it: held_out[i] - i of the others are before
  // held_out[i].
  uint32_t low = 0;
  uint32_t high = chosen->count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (chosen->held_out[middle] - middle <= sample) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const SampleSource& all = *chosen->source;
  return all.read(all.context, sample + low, inputs, label);
}

}  // namespace

zo_status BlockTrainer::Init(Network* network, const BlockChoiceInfo& info, uint32_t interval, void* workspace,
                             size_t workspace_bytes, const SampleSource& source) {
  network_ = network;
  info_ = &info;
  workspace_ = static_cast<uint8_t*>(workspace);
  workspace_bytes_ = workspace_bytes;
  interval_ = interval;
  source_ = source;
  zo_status status = zo_block_choice_init(&choice_, info.block_count);
  // Errors of later runs are reported before the first probe.
  for (uint32_t i = info.block_count; status == ZO_OK && i-- > 0;) {
    const BlockInfo& block = info.blocks[i];
    status = network->Switch(*block.model);
    for (const zo_node_settings* settings : {block.probe, block.run}) {
      if (status == ZO_OK) status = Begin(this, block, settings, source);
    }
  }
  if (status != ZO_OK) {
    network_ = nullptr;
    Clear();
  }
  return status;
}

// A run of a block, whose model the network has.
zo_status BlockTrainer::Begin(NodeTrainer* run, const BlockInfo& block, const zo_node_settings* settings,
                              const SampleSource& source) {
  if (workspace_bytes_ < block.boundary_bytes) return ZO_ERROR_MEMORY;
  return run->NodeTrainer::Init(network_, settings, block.tasks, interval_, workspace_ + block.boundary_bytes,
                                workspace_bytes_ - block.boundary_bytes, source);
}

zo_status BlockTrainer::Probe(BlockProbe* probe) {
  *probe = {};
  if (network_ == nullptr) return ZO_ERROR_ORDER;
  zo_block_request request;
  zo_status status = zo_block_choice_next(&choice_, &request);
  if (status != ZO_OK) return status;
  if (request.action != ZO_BLOCK_PROBE) return ZO_ERROR_ORDER;
  const BlockInfo& block = info_->blocks[request.block];
  Selection selection = {&source_, info_->held_out, info_->held_out_count};
  status = network_->Switch(*block.model);
  if (status != ZO_OK) return status;
  // A run of its own: settings of this object, such as its log, are for the main run.
  NodeTrainer run;
  status = Begin(&run, block, block.probe, {ReadRest, &selection});
  while (status == ZO_OK && !run.done()) {
    zo_report report;
    status = run.TrainStep(&report);
  }
  if (status != ZO_OK) return status;
  Evaluation found;
  status = network_->Evaluate({ReadHeldOut, &selection}, 0, info_->held_out_count, &found);
  if (status != ZO_OK) return status;
  const uint32_t loss = network_->info().loss.kind;
  const bool of_classes = loss == ZO_LOSS_CROSS_ENTROPY || loss == ZO_LOSS_FLOOR_LOG2;
  probe->block = request.block;
  probe->score = of_classes ? static_cast<int64_t>(found.correct) : -found.loss;
  const zo_block_choice before = choice_;
  status = zo_block_choice_report(&choice_, probe->score);
  if (status == ZO_OK && chosen()) status = Start(info_->blocks[choice_.best]);
  if (status != ZO_OK) choice_ = before;
  return status;
}

zo_status BlockTrainer::Resume(const zo_block_choice& choice) {
  if (network_ == nullptr) return ZO_ERROR_ORDER;
  if (choice.blocks != info_->block_count || choice.block > choice.blocks || choice.best >= choice.blocks) {
    return ZO_ERROR_ARGUMENT;
  }
  // The run in progress ends here, and its log stays unchanged.
  if (HasBegun()) SetLog(nullptr);
  const zo_block_choice before = choice_;
  choice_ = choice;
  const zo_status status = Start(info_->blocks[chosen() ? choice_.best : 0]);
  if (status != ZO_OK) choice_ = before;
  return status;
}

// The run of the chosen block.
zo_status BlockTrainer::Start(const BlockInfo& block) {
  zo_status status = network_->Switch(*block.model);
  if (status == ZO_OK) status = Begin(this, block, block.run, source_);
  if (status != ZO_OK) Clear();  // the network has no weights of any run
  return status;
}

zo_status BlockTrainer::TrainStep(zo_report* report) {
  *report = {};
  return chosen() ? NodeTrainer::TrainStep(report) : ZO_ERROR_ORDER;
}

zo_status BlockTrainer::TrainSlice(zo_report* report) {
  *report = {};
  return chosen() ? NodeTrainer::TrainSlice(report) : ZO_ERROR_ORDER;
}

zo_status BlockTrainer::ImportWeights(const LogStore& store) {
  return chosen() ? NodeTrainer::ImportWeights(store) : ZO_ERROR_ORDER;
}

zo_status BlockTrainer::KeepBest(const Yardstick& yardstick) {
  return chosen() ? NodeTrainer::KeepBest(yardstick) : ZO_ERROR_ORDER;
}

zo_status BlockTrainer::RestoreBest(zo_measurement* best) {
  return chosen() ? NodeTrainer::RestoreBest(best) : ZO_ERROR_ORDER;
}

zo_status BlockTrainer::ExportLog(const LogStore& log) {
  return chosen() ? NodeTrainer::ExportLog(log) : ZO_ERROR_ORDER;
}

zo_status BlockTrainer::ImportLog(const LogStore& log) {
  return chosen() ? NodeTrainer::ImportLog(log) : ZO_ERROR_ORDER;
}

}  // namespace tflm_zo
