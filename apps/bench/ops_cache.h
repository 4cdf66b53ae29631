// The paged cache that `rose bench ops` times attention over.
#pragma once

#include <memory>
#include <vector>

#include "bench/ops_cases.h"
#include "ops/cpu/cpu_ops.h"

namespace rose {

// Keys or values of a page in f32, as the reference has them: [kv_heads, kPageSize, head_dim].
std::vector<float> HostPage(const OpInputs& inputs, const Tensor& pages, int64_t page,
                            bool is_keys);

// Columns of qkv.
int64_t WidthOf(const AttentionShape& shape);

// Sequences of one step, and copies of a layer's cache with their keys in them.
class CacheInputs {
 public:
  // `users` sequences with `rows` new rows each behind `context` keys.
  static Result<std::shared_ptr<CacheInputs>> Create(OpInputs& in, int64_t users, int64_t rows,
                                                     int64_t context, int64_t window);

  Step step() const { return {tokens_, positions_, seqs_, {}}; }
  int64_t rows() const { return std::ssize(positions_); }
  int64_t copies() const { return std::ssize(cache_.layers); }
  KvLayer& layer(int64_t copy) { return cache_.layers[copy % copies()]; }
  const AttentionShape& shape() const { return shape_; }
  const Rope& rope() const { return rope_; }

  // Keys that rows see: summed over rows; and those that at least one row of each sequence sees.
  double keys_of_rows() const;
  double keys_read() const;

  // The reference's attention of `rows`, whose q is in `qkv` [rows, width], over copy 0.
  std::vector<float> Expected(OpInputs& in, const std::vector<int64_t>& rows, const Tensor& qkv,
                              const Weight& sinks);
  // Where keys and values of a row stand in copy 0.
  int64_t PageOf(int64_t row) const;

 private:
  void Fill(OpInputs& in, const Tensor& qkv);
  const StepSeq& SeqOf(int64_t row) const;
  // Pages of a sequence from the one of `first` on, in f32, and their table.
  KvCache HostCache(OpInputs& in, CpuOps& reference, const StepSeq& seq, int64_t first,
                    std::vector<int32_t>& table);

  AttentionShape shape_;
  int64_t window_ = 0;
  Rope rope_;
  std::vector<int32_t> tokens_, positions_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<StepSeq> seqs_;
  KvCache cache_;
};

}  // namespace rose
