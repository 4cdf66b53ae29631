// StepTable: what the simulator must know of a machine and its model, as a text of JSON lines.
//
// The first line is the model's: {"model": "rosebud", "machine": "...", "vocab": 1536,
// "max_positions": 131072, "kv_heads": 2, "head_dim": 64, "kv_dtype": "f32",
// "groups": [{"window": 128, "layers": 3}, {"window": 0, "layers": 3}]}, window 0 being full
// attention; "feeds_back": true where draws are fed back on the device, so that the engine plans
// ahead. Every other is a measured step: {"decode_rows": 16, "prompt_rows": 256,
// "sampled_rows": 17, "decode_keys": 4096, "prompt_keys": 33000, "ms": 12.3}; what is left out is
// 0, sampled_rows what decodes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulator/step_costs.h"
#include "tensor/kv_layout.h"

namespace rose {

struct StepTable {
  std::string model, machine;  // for people
  int64_t vocab = 0;
  int64_t max_positions = 0;
  KvLayout kv;
  DType kv_dtype = DType::kBf16;
  bool feeds_back = false;  // ExecutorInfo
  std::vector<MeasuredStep> steps;

  // Of one page of every group.
  std::vector<int64_t> PageBytes() const;
};

// kInvalidArgument names the line and what is wrong with it.
Result<StepTable> ParseStepTable(std::string_view jsonl);

// The lines, without their ends.
std::string StepTableHead(const StepTable& table);
std::string StepLine(const MeasuredStep& step);

}  // namespace rose
