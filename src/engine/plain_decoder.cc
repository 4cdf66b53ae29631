#include "base/check.h"
#include "engine/decoder.h"

namespace rose {
namespace {

class PlainDecoder : public Decoder {
 public:
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
  ROSE_CHECK_EQ(draft.size() + 1, drawn.size());
  size_t kept = 0;
  while (kept < draft.size() && draft[kept] == drawn[kept].id) ++kept;
  return static_cast<int64_t>(kept) + 1;
}

}  // namespace rose
