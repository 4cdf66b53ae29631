// How a weight is divided over GPUs, as a row of a model's tensor table says it.
#pragma once

namespace rose {

enum class Split {
  kNone,     // every rank holds all of it
  kRows,     // output rows (bias and vectors of the same rows alike)
  kCols,     // input columns; a bias is added by one rank
  kExperts,  // the leading expert axis
};

// The ranks over which it is divided.
enum class Group { kNone, kAttnTp, kMlpTp, kExpert, kVocab };

}  // namespace rose
