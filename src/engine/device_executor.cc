#include "engine/device_executor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/cpu.h"
#include "engine/draw_specs.h"
#include "engine/host_sampling.h"
#include "engine/plan_inputs.h"
#include "models/warm_up.h"

namespace rose {
namespace {

constexpr int kMostScorers = 16;  // threads

// A step between Submit and Wait.
struct Flight {
  const StepPlan* plan = nullptr;
  Tensor logits;                    // on the device, until the next step begins
  std::vector<int64_t> first_draw;  // by sequence, in the DrawQueue; -1 = the host draws, or nobody
  bool is_finished = false;
  StepResult result;  // once it is finished
};

// The sequence's rows are sampled on the host.
bool IsForHost(const SeqPlan& seq) {
  if (seq.scored > 0) return true;
  if (seq.samples == 0) return false;
  // What a constraint allows behind a draft may be asked only if the draws before agree with it.
  return NeedsHost(*seq.sampling) || (seq.samples > 1 && seq.constraint != nullptr);
}

// Its draws need tokens that are not known before the step in flight is finished.
bool WaitsForDraws(const SeqPlan& seq) {
  return seq.fed_from >= 0 && seq.samples > 0 &&
         (IsForHost(seq) || seq.constraint != nullptr || ReadsHistory(*seq.sampling));
}

class DeviceExecutor : public Executor {
 public:
  DeviceExecutor(const Model& model, OpSet& ops, ExecutorInfo info, KvCache kv, KvCache host_kv)
      : model_(model),
        ops_(ops),
        draws_(*ops.draws()),
        info_(std::move(info)),
        kv_(std::move(kv)),
        host_kv_(std::move(host_kv)) {}

  const ExecutorInfo& info() const override { return info_; }

  void Prepare(int64_t sequences) override { RecordDecodes(model_, ops_, kv_, sequences); }

  void Submit(const StepPlan& plan) override {
    ROSE_CHECK_LT(submitted_ - waited_, std::ssize(flights_));
    Flight* before = submitted_ > waited_ ? &FlightOf(submitted_ - 1) : nullptr;
    if (before != nullptr && (NeedsLogits(*before->plan) || AnyWaits(plan))) Finish(*before);
    Flight& flight = FlightOf(submitted_++);
    flight.plan = &plan;
    flight.first_draw.clear();
    flight.is_finished = false;
    flight.result.seqs.clear();
    flight.result.seqs.reserve(plan.seqs.size());
    if (before != nullptr && before->is_finished) FeedFromHost(*before, plan);
    inputs_.Fill(plan);
    if (before != nullptr && !before->is_finished) FeedOnDevice(*before, plan);
    ops_.CopyPages(kv_, host_kv_, plan.copies);
    ops_.BeginStep(inputs_.step());
    flight.logits =
        ops_.Replayed(inputs_.step(), [this] { return model_.Forward(ops_, kv_, inputs_.step()); });
    Draw(flight);
  }

  StepResult Wait() override {
    ROSE_CHECK_GT(submitted_, waited_);
    Flight& flight = FlightOf(waited_++);
    if (!flight.is_finished) {
      Finish(flight);
      if (submitted_ > waited_) FeedFromHost(flight, *FlightOf(waited_).plan);
    }
    return std::move(flight.result);
  }

 private:
  Flight& FlightOf(int64_t step) { return flights_[step % flights_.size()]; }

  // Logits must not go before the host has drawn: from them, or, where a constraint leaves nothing,
  // once more.
  static bool NeedsLogits(const StepPlan& plan) {
    for (const SeqPlan& seq : plan.seqs) {
      if (IsForHost(seq) || (seq.samples > 0 && seq.constraint != nullptr)) return true;
    }
    return false;
  }
  static bool AnyWaits(const StepPlan& plan) {
    for (const SeqPlan& seq : plan.seqs) {
      if (WaitsForDraws(seq)) return true;
    }
    return false;
  }

  // The draws of `before`, which is finished, become known tokens of `plan`.
  static void FeedFromHost(const Flight& before, const StepPlan& plan) {
    for (const SeqPlan& seq : plan.seqs) {
      if (seq.fed_from < 0) continue;
      const std::vector<SampledToken>& drawn = before.result.seqs[seq.fed_from].sampled;
      *seq.fed_token = drawn.empty() ? 0 : drawn.back().id;
    }
  }

  // The device puts the draws of `before` into the step's tokens.
  void FeedOnDevice(const Flight& before, const StepPlan& plan) {
    for (size_t i = 0; i < plan.seqs.size(); ++i) {
      const SeqPlan& seq = plan.seqs[i];
      if (seq.fed_from < 0) continue;
      const int64_t last = inputs_.seqs[i].first_row + inputs_.seqs[i].rows - 1;
      inputs_.tokens[last] = 0;
      const int64_t draws = before.plan->seqs[seq.fed_from].samples;
      inputs_.fed.push_back({.row = last, .draw = before.first_draw[seq.fed_from] + draws - 1});
    }
  }

  // Enqueues what the device draws.
  void Draw(Flight& flight) {
    specs_.Clear();
    int64_t row = 0, draws = 0;
    for (const SeqPlan& seq : flight.plan->seqs) {
      const bool on_device = seq.samples > 0 && !IsForHost(seq);
      flight.first_draw.push_back(on_device ? draws : -1);
      std::string& error = flight.result.seqs.emplace_back().error;
      for (int64_t i = 0; i < seq.samples && on_device; ++i) {
        const int64_t position = std::ssize(seq.history) - seq.samples + 1 + i;
        Result<SampleRow> sample = SampleRowOf(seq, position);
        if (sample.ok()) {
          specs_.Add(*sample, row + i, info_.vocab);
        } else {
          error = sample.status().message();
          specs_.Add({.params = &kGreedy}, row + i, info_.vocab);  // nobody looks at it
        }
        ++draws;
      }
      row += seq.scored + seq.samples;
    }
    draws_.Draw(flight.logits, specs_.specs());
  }

  // Waits for a step's draws, and does on the host what the device could not.
  void Finish(Flight& flight) {
    const std::span<const int32_t> drawn = draws_.Wait();
    Tensor logits;  // on the host, if anybody needs them
    int64_t row = 0;
    for (size_t i = 0; i < flight.plan->seqs.size(); ++i) {
      const SeqPlan& seq = flight.plan->seqs[i];
      SeqResult& own = flight.result.seqs[i];
      const int64_t rows = seq.scored + seq.samples;
      bool by_host = IsForHost(seq);
      if (flight.first_draw[i] >= 0 && own.error.empty()) {
        by_host = !TakeDraws(seq, drawn.subspan(flight.first_draw[i], seq.samples), own);
      }
      if (by_host) {
        if (logits.empty()) logits = ops_.ToHost(flight.logits);
        const float* first = logits.data<float>() + row * info_.vocab;
        own = sampling_.Run(seq, {first, static_cast<size_t>(rows * info_.vocab)}, info_.vocab);
      }
      row += rows;
    }
    flight.is_finished = true;
  }

  // False: the host must look at the logits again, which are still there.
  static bool TakeDraws(const SeqPlan& seq, std::span<const int32_t> drawn, SeqResult& own) {
    const int64_t known = std::ssize(seq.history) - seq.samples + 1;
    for (int64_t i = 0; i < seq.samples; ++i) {
      if (drawn[i] < 0 && seq.constraint != nullptr) return false;
      if (drawn[i] < 0) {
        own.error = NothingToDraw(seq.id, known + i);
        return true;
      }
      own.sampled.push_back({.id = drawn[i]});
      // Draws behind a rejected draft do not count.
      if (i + 1 < seq.samples && drawn[i] != seq.history[known + i]) return true;
    }
    return true;
  }

  inline static const SamplingParams kGreedy{.temperature = 0};

  const Model& model_;
  OpSet& ops_;
  DrawQueue& draws_;
  const ExecutorInfo info_;
  KvCache kv_, host_kv_;
  std::array<Flight, 2> flights_;
  int64_t submitted_ = 0, waited_ = 0;
  PlanInputs inputs_;  // of the step submitted last
  DrawSpecs specs_;
  HostSampling sampling_{std::min(AvailableCpus(), kMostScorers)};
};

}  // namespace

Result<std::unique_ptr<Executor>> CreateDeviceExecutor(const Model& model, OpSet& ops,
                                                       const std::vector<int64_t>& pages,
                                                       const std::vector<int64_t>& host_pages) {
  const ModelInfo& about = model.info();
  KvCache kv, host_kv;
  ROSE_ASSIGN_OR_RETURN(kv, ops.AllocateKv(about.kv, pages));
  if (!host_pages.empty()) {
    ROSE_ASSIGN_OR_RETURN(host_kv, ops.AllocateHostKv(about.kv, host_pages));
  }
  ExecutorInfo info{.vocab = about.vocab,
                    .max_positions = about.max_positions,
                    .kv = about.kv,
                    .pages = pages,
                    .host_pages = host_pages,
                    .feeds_back = true};
  return std::unique_ptr<Executor>(std::make_unique<DeviceExecutor>(
      model, ops, std::move(info), std::move(kv), std::move(host_kv)));
}

}  // namespace rose
