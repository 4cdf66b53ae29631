// Two small pieces of the mixture of experts that the host op sets share. Spec A.6 and A.7.
#pragma once

#include <cstdint>
#include <span>

#include "ops/ops.h"

namespace rose {

// gate * sigmoid(alpha * gate) * (up + up_offset), with gate clamped above and up clamped on both
// sides. NaN in gives NaN out.
float ApplySwiGlu(float gate, float up, const SwiGlu& activation);

// The experts.size() largest of `logits`, best first, ties to the lower index, and the softmax over
// those. NaN logits are never preferred; the experts are distinct in every case.
void SelectExperts(std::span<const float> logits, std::span<int32_t> experts,
                   std::span<float> weights);

}  // namespace rose
