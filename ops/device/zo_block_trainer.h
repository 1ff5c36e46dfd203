/* Copyright 2026 The tflm_zo Authors. SPDX-License-Identifier: Apache-2.0
 *
 * The choice of the block of layers that is best trained alone, on a device (zo_block_choice.h):
 * each block is tried in a short run of its layers, a probe, and judged by samples that are held
 * out of it; then the best is trained on all samples. `tflm-zo firmware --choose-block`
 * selects blocks and samples.
 *
 *   while (!trainer.chosen()) trainer.Probe(&probe);
 *   while (!trainer.done()) trainer.TrainStep(&report);
 */
#ifndef TFLM_ZO_OPS_DEVICE_ZO_BLOCK_TRAINER_H_
#define TFLM_ZO_OPS_DEVICE_ZO_BLOCK_TRAINER_H_

#include "ops/core/run/zo_block_choice.h"
#include "ops/device/zo_node_trainer.h"

namespace tflm_zo {

// The generator's tables of a block.
struct BlockInfo {
  const ModelInfo* model;         // in which the block's layers alone are trainable
  const zo_node_settings* probe;  // of its probe, on the samples that are not held out
  const zo_node_settings* run;    // of the run that trains it alone, on all samples
  const TaskInfo* tasks;          // of both, the same number
  uint32_t boundary_bytes;        // that the network keeps at boundaries
};

// All of them. Held-out samples by their numbers, rising, at least one and not all.
struct BlockChoiceInfo {
  const BlockInfo* blocks;
  const uint32_t* held_out;
  uint32_t block_count;
  uint32_t held_out_count;
};

class BlockTrainer : public NodeTrainer {
 public:
  constexpr BlockTrainer() = default;

  // Begins a choice on a network that Init has set up for the first block's model, with boundaries
  // at the beginning of the workspace.
  //
  //   info       the caller keeps it
  //   interval, workspace, source  as for NodeTrainer::Init; the workspace for the largest block,
  //              boundaries included
  //
  // Errors: those of NodeTrainer::Init, of any of the runs; ZO_ERROR_ARGUMENT: no block.
  zo_status Init(Network* network, const BlockChoiceInfo& info, uint32_t interval, void* workspace,
                 size_t workspace_bytes, const SampleSource& source);

  // Does the next probe, from its first step to its score, which may take long. After the last
  // one the weights are the model's own again, and the run of the best block begins.
  //
  // Errors: those of NodeTrainer::TrainStep and Network::Evaluate: the next call does the probe
  // anew. ZO_ERROR_ORDER: all are done.
  zo_status Probe(BlockProbe* probe);

  // Whether all probes are done; then best() is the block that is trained.
  bool chosen() const { return choice_.blocks > 0 && choice_.block == choice_.blocks; }
  uint32_t best() const { return choice_.best; }

  // For a device that may lose its power between probes, or in the run after them: saves and
  // restores the state of the choice. If a block is chosen in it, ImportLog then resumes the run. A
  // run in progress is aborted, and its log detached.
  //
  // Errors: ZO_ERROR_ARGUMENT: it is not of so many blocks, nothing has changed. ZO_ERROR_RUNTIME:
  // the choice has not changed, and all calls but Probe and Resume return ZO_ERROR_ORDER until
  // they have chosen a block, or Init succeeds.
  const zo_block_choice& choice() const { return choice_; }
  zo_status Resume(const zo_block_choice& choice);

  // As in NodeTrainer, but ZO_ERROR_ORDER before the block is chosen. Probes have no log. Weights
  // are those of the chosen block.
  bool IsAtStart() const { return choice_.block == 0; }
  zo_status TrainStep(zo_report* report);
  zo_status TrainSlice(zo_report* report);
  zo_status ImportWeights(const LogStore& store);
  zo_status KeepBest(const Yardstick& yardstick);
  zo_status RestoreBest(zo_measurement* best);
  zo_status ExportLog(const LogStore& log);
  zo_status ImportLog(const LogStore& log);

 private:
  zo_status Start(const BlockInfo& block);
  zo_status Begin(NodeTrainer* run, const BlockInfo& block, const zo_node_settings* settings,
                  const SampleSource& source);

  Network* network_ = nullptr;
  const BlockChoiceInfo* info_ = nullptr;
  uint8_t* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  uint32_t interval_ = 0;
  SampleSource source_ = {};
  zo_block_choice choice_ = {};
};

}  // namespace tflm_zo

#endif  // TFLM_ZO_OPS_DEVICE_ZO_BLOCK_TRAINER_H_
