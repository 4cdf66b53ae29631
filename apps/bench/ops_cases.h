// What `rose bench ops` times: every op of the set at the shapes of a model, with inputs, what it
// must move and multiply, and a comparison with the reference.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/ops_weights.h"
#include "models/step_work.h"
#include "ops/op_meter.h"

namespace rose {

// How a result compares with ops/cpu: some of its rows.
struct OpChecked {
  int64_t rows = 0;
  double one_minus_cos = 0;  // of the worst row
  double bound = 0;          // of it; 0 = equal to the bit
};

struct OpCase {
  std::string op;
  int64_t tokens = 0;
  int64_t context = -1;  // keys before the tokens; -1 = it has none
  std::string format;    // of its weights; "" = it has none
  // Of one call, on average. Bytes: weights and cache that must be read, inputs and outputs, each
  // once. `experts`: distinct ones.
  StepWork work;
  std::function<void()> begin;  // once, before calls
  MeteredCalls calls;
  std::function<Result<OpChecked>()> check;  // of the result of the last call, after the timing
  std::optional<LibraryProduct> product;     // the same by a library, if it has the op
  std::function<Result<OpChecked>()> check_product;  // of what the library computed
};

// A case that is made when its turn comes: caches are large.
struct PlannedCase {
  std::string op;
  std::function<Result<OpCase>()> make;
};

// Inputs and weights that cases share. Outlives them.
class OpInputs {
 public:
  OpInputs(BenchWeights& weights, OpMeter& meter, int64_t most_tokens)
      : weights_(weights), meter_(meter), most_tokens_(most_tokens) {}

  BenchWeights& weights() { return weights_; }
  OpMeter& meter() { return meter_; }
  OpSet& ops() const { return *weights_.loaded().ops; }
  const ModelInfo& info() const { return weights_.loaded().model->info(); }
  bool is_on_gpu() const { return weights_.is_on_gpu(); }

  // Activations of the op set's type [rows, cols], about normal.
  Result<Tensor> Activations(const std::string& name, int64_t rows, int64_t cols);
  // The residual stream, F32 [rows, hidden].
  Result<Tensor> Residual(int64_t rows);
  // Calls of a round over so many copies.
  int64_t CallsFor(int64_t copies) const;
  // Makes room for the next call's result: of a layer on the device, of a step on a CPU.
  void NextCall(const Step& step = {}) const;
  double bound(bool is_f32) const;
  // Bytes of so many results, of the op set's activation type.
  double OutBytes(int64_t elements) const {
    return static_cast<double>(elements) * (is_on_gpu() ? 2 : 4);
  }

 private:
  BenchWeights& weights_;
  OpMeter& meter_;
  const int64_t most_tokens_;
  std::map<std::string, Tensor> activations_;
  Tensor residual_;
  std::vector<std::vector<float>> floats_;
};

inline double BytesOf(const Tensor& tensor) {
  return static_cast<double>(tensor.bytes());
}

OpChecked CompareRows(const std::vector<float>& actual, const Tensor& expected, double bound);

// All ops that need no cache, at `tokens` rows, in the order of a layer. The head and the draws are
// there for as many rows as an engine has in a step.
std::vector<PlannedCase> LayerCases(OpInputs& inputs, int64_t tokens);

}  // namespace rose
