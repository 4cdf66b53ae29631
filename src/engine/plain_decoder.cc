#include "base/check.h"
#include "engine/decoder.h"

namespace rose {
namespace {

class PlainDecoder : public Decoder {
 public:
  bool proposes() const override { return false; }
  std::vector<int32_t> Propose(RequestId, std::span<const int32_t>) override { return {}; }
  int64_t Accept(std::span<const int32_t> draft, std::span<const SampledToken> drawn) override {
    return CountAccepted(draft, drawn);
  }
};

}  // namespace

std::unique_ptr<Decoder> CreatePlainDecoder() {
  return std::make_unique<PlainDecoder>();
}

int64_t CountAccepted(std::span<const int32_t> draft, std::span<const SampledToken> drawn) {
  ROSE_CHECK(!drawn.empty() && drawn.size() <= draft.size() + 1, "draws=", drawn.size(),
             " of a draft of ", draft.size());
  size_t kept = 1;
  while (kept < drawn.size() && draft[kept - 1] == drawn[kept - 1].id) ++kept;
  return static_cast<int64_t>(kept);
}

}  // namespace rose
