#include "engine/engine_limits.h"

#include <algorithm>

namespace rose {
namespace {

// Of one page of every group.
int64_t LeastBytes(std::span<const GroupCost> costs) {
  return PeakBytes(costs, KvLayout::kPageSize, /*tokens=*/1, /*chunk=*/1);
}

}  // namespace

SchedulerLimits SchedulerLimitsOf(const EngineConfig& config) {
  SchedulerLimits limits;
  limits.max_step_tokens = std::max<int64_t>(1, config.max_step_tokens);
  // Every decode gets its row in every step.
  limits.max_running = std::clamp<int64_t>(config.max_running, 1, limits.max_step_tokens);
  limits.prefill_chunk = config.prefill_chunk > 0
                             ? std::min(config.prefill_chunk, limits.max_step_tokens)
                             : limits.max_step_tokens;
  return limits;
}

bool IsPipelined(const EngineConfig& config, const ExecutorInfo& info) {
  return config.pipeline.value_or(info.feeds_back);
}

std::vector<GroupCost> GroupCosts(const KvLayout& layout, DType kv_dtype) {
  std::vector<GroupCost> costs;
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    costs.push_back({.window = layout.groups[g].window,
                     .page_bytes = layout.PageBytes(static_cast<int>(g), kv_dtype)});
  }
  return costs;
}

Result<std::vector<int64_t>> PlanKvPages(const KvLayout& layout, DType kv_dtype,
                                         int64_t max_positions, const EngineConfig& config,
                                         int64_t bytes) {
  const std::vector<GroupCost> costs = GroupCosts(layout, kv_dtype);
  const int64_t max_running = std::max<int64_t>(1, config.max_running);
  const CacheDemand demand = {
      .page_size = KvLayout::kPageSize,
      .max_running = max_running,
      // Two for each that runs: where its prompt ended, and its last turn's end.
      .kept = config.prefix_cache ? 2 * max_running : 0,
      .max_step_tokens = std::max<int64_t>(1, config.max_step_tokens),
      .max_context = config.max_context > 0 ? config.max_context : max_positions};
  const std::vector<int64_t> pages = DividePages(costs, demand, bytes);
  if (*std::min_element(pages.begin(), pages.end()) < 1) {
    return InvalidArgument(bytes, " bytes hold no page of the KV cache; give it at least ",
                           2 * LeastBytes(costs), " bytes");
  }
  return pages;
}

Result<std::vector<int64_t>> PlanHostPages(const KvLayout& layout, DType kv_dtype, int64_t bytes) {
  const std::vector<GroupCost> costs = GroupCosts(layout, kv_dtype);
  std::vector<int64_t> pages = DivideHostPages(costs, bytes);
  if (*std::min_element(pages.begin(), pages.end()) < 1) {
    return InvalidArgument(bytes, " bytes hold no page of the host tier; give it at least ",
                           4 * LeastBytes(costs), " bytes, or none");
  }
  return pages;
}

}  // namespace rose
