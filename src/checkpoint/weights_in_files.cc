// WeightsInFiles: from the table to weights that are read piece by piece.
#include <algorithm>

#include "checkpoint/checkpoint.h"
#include "checkpoint/resolve.h"
#include "checkpoint/scales.h"
#include "checkpoint/weight_layout.h"

namespace rose {
namespace {

class StoredWeightSource : public WeightSource {
 public:
  StoredWeightSource(const Checkpoint& checkpoint, std::string name, WeightLayout layout)
      : checkpoint_(checkpoint), name_(std::move(name)), layout_(std::move(layout)) {}

  const std::string& name() const override { return name_; }
  const Weight& weight() const override { return layout_.weight; }

  Status Read(WeightPart part, int64_t begin, std::span<uint8_t> into) const override {
    const bool are_scales = part == WeightPart::kScales;
    for (const Segment& segment : are_scales ? layout_.scales : layout_.data) {
      const int64_t lo = std::max(begin, segment.to);
      const int64_t hi = std::min(begin + std::ssize(into), segment.end());
      if (lo >= hi) continue;
      if (segment.is_plain()) {
        ROSE_RETURN_IF_ERROR(
            checkpoint_.Read(segment.source, lo - segment.to, into.subspan(lo - begin, hi - lo)));
      } else {
        CopySegment(segment, begin, into);
      }
    }
    if (are_scales && HasBadScale(layout_.weight.scales.dtype(), into)) return FindBadScales();
    return Status();
  }

 private:
  // Looks again at all scales of the weight, for the sentences.
  Status FindBadScales() const {
    std::vector<std::string> bad;
    for (const Segment& segment : layout_.scales) {
      std::string problem = FindBadScale(segment.source, segment.view);
      if (!problem.empty()) bad.push_back(std::move(problem));
    }
    return BadScales(checkpoint_.folder(), bad);
  }

  const Checkpoint& checkpoint_;
  const std::string name_;
  const WeightLayout layout_;
};

}  // namespace

Result<std::vector<std::unique_ptr<WeightSource>>> WeightsInFiles(
    const Checkpoint& checkpoint, const std::vector<TensorSpec>& table) {
  const Resolution resolution = ResolveTable(checkpoint, table);
  ROSE_RETURN_IF_ERROR(resolution.ToStatus(checkpoint.folder()));
  std::vector<std::unique_ptr<WeightSource>> sources;
  for (const ResolvedWeight& weight : resolution.weights) {
    sources.push_back(std::make_unique<StoredWeightSource>(checkpoint, weight.spec->name,
                                                           LayOutWeight(checkpoint, weight)));
  }
  return sources;
}

}  // namespace rose
