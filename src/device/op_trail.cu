#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <string_view>

#include "base/check.h"
#include "device/cuda_check.h"
#include "device/fault.h"
#include "device/op_trail.h"

namespace rose {
namespace {

// The trail that this thread has used last. Like a logger it serves messages alone: no work depends
// on it, and calls of CUDA everywhere would need a parameter otherwise.
thread_local OpTrail* trail_of_thread = nullptr;

// The device found the error while it ran a kernel, whatever call reports it.
bool IsFault(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorECCUncorrectable:
      return true;
    default:
      return false;
  }
}

// Equal ops of several layers, in one line of a report.
struct Line {
  const OpRecord* op;
  int64_t count = 0;
  int32_t first_layer, last_layer;
};

bool IsSame(const OpRecord& a, const OpRecord& b) {
  return std::string_view(a.name) == b.name && (a.layer < 0) == (b.layer < 0) &&
         a.size_count == b.size_count &&
         std::equal(a.sizes, a.sizes + a.size_count, b.sizes, [](const OpSize& x, const OpSize& y) {
           return std::string_view(x.axis) == y.axis && x.size == y.size;
         });
}

std::string LayersOf(const Line& line) {
  if (line.first_layer < 0) return line.count > 1 ? StrCat(", ", line.count, " times") : "";
  if (line.first_layer == line.last_layer) return StrCat(" of layer ", line.first_layer);
  return StrCat(", ", line.count, " times in layers ", line.first_layer, " to ", line.last_layer);
}

}  // namespace

std::string OpRecord::ToString() const {
  std::string text = StrCat(name, " [");
  for (int i = 0; i < size_count; ++i) {
    text += StrCat(i > 0 ? ", " : "", sizes[i].axis, "=", sizes[i].size);
  }
  return text + "]";
}

OpTrail::OpTrail(cudaStream_t stream, OpTrailOptions options)
    : stream_(stream), options_(std::move(options)), ops_(kRecords) {
  const size_t colon = options_.fault_at.find(':');
  if (colon == std::string::npos) return;
  const char* end = options_.fault_at.data() + options_.fault_at.size();
  const auto parsed = std::from_chars(options_.fault_at.data() + colon + 1, end, until_fault_);
  fault_hangs_ = std::string_view(parsed.ptr, end) == ":hang";
  options_.fault_at.resize(colon);
}

OpTrail::~OpTrail() {
  if (trail_of_thread == this) trail_of_thread = nullptr;
}

void OpTrail::Finished(int64_t position) {
  {
    const std::lock_guard lock(mutex_);
    finished_ = std::max(finished_, position);
  }
  // Marks of a graph are overwritten by its next replay; others can wait.
  if (timing_ == OpTiming::kOps) clock_->Read(position);
}

std::vector<OpRecord> OpTrail::Since(int64_t position) const {
  std::vector<OpRecord> ops;
  for (int64_t i = std::max(position, enqueued_ - kRecords); i < enqueued_; ++i) {
    ops.push_back(ops_[i % kRecords]);
  }
  return ops;
}

RecordedOps OpTrail::Recorded(int64_t position) {
  RecordedOps recorded{.ops = Since(position), .marks = {}};
  if (clock_ != nullptr) recorded.marks = clock_->TakeRecorded();
  const std::lock_guard lock(mutex_);
  enqueued_ = position;  // they are not: a replay will be
  return recorded;
}

void OpTrail::Replayed(const RecordedOps& recorded) {
  trail_of_thread = this;
  {
    const std::lock_guard lock(mutex_);
    for (const OpRecord& op : recorded.ops) Add(op);
  }
  if (clock_ != nullptr) clock_->Replayed(recorded.marks, enqueued_ - 1);
}

void OpTrail::BeginStep() {
  layer_ = -1;
  step_at_ = enqueued_;
}

// Counted from the forward pass, so that the marks of a graph fit every step that replays it.
ProgressMark OpTrail::NewMark(int64_t rows) {
  if (rows == 0) return {};
  const std::lock_guard lock(mutex_);
  OpRecord& op = ops_[(enqueued_ - 1) % kRecords];
  op.mark = static_cast<int32_t>(enqueued_ - step_at_);
  return {options_.progress, op.mark};
}

void OpTrail::BeginForward() {
  is_forward_ = true;
  step_at_ = enqueued_;
  if (timing_ != OpTiming::kSteps) return;
  OpRecord op;
  op.name = "forward";
  clock_->Mark(op, enqueued_);
}

void OpTrail::EndForward() {
  is_forward_ = false;
  // Behind the marks of a graph, whose last would be overwritten before its end is known.
  if (timing_ != OpTiming::kOff) clock_->Mark({}, enqueued_ - 1);
}

void OpTrail::SetTiming(OpTiming timing) {
  timing_ = timing;
  clock_.reset();
  if (timing != OpTiming::kOff) clock_ = std::make_unique<OpClock>(stream_);
}

std::vector<TimedOp> OpTrail::TakeTimes() {
  if (clock_ == nullptr) return {};
  WaitForAll("waiting for a step");
  Finished(enqueued_);
  clock_->Read(enqueued_ + 1);
  return clock_->Take();
}

// The op that is being enqueued, or was last, has a mark where it begins.
bool OpTrail::IsMarked() const {
  return timing_ == OpTiming::kOps || (timing_ == OpTiming::kSteps && !is_forward_);
}

// Under the lock.
void OpTrail::Add(const OpRecord& op) {
  ops_[enqueued_++ % kRecords] = op;
}

void OpTrail::Begin(const char* name, std::initializer_list<OpSize> sizes) {
  trail_of_thread = this;
  if (options_.is_sync) {
    WaitForAll("waiting for an op");
    Finished(enqueued_);
  }
  ROSE_CHECK(std::ssize(sizes) <= OpRecord::kMostSizes, name, " has ", sizes.size(), " sizes");
  OpRecord op;
  op.name = name;
  op.layer = layer_;
  op.size_count = static_cast<int32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), op.sizes);
  {
    const std::lock_guard lock(mutex_);
    Add(op);
  }
  is_within_ = true;
  if (IsMarked()) clock_->Mark(op, enqueued_ - 1);
  nvtxRangePushA(name);
  if (until_fault_ == 0 || options_.fault_at != name || --until_fault_ > 0) return;
  fault_hangs_ ? LaunchHang(stream_) : LaunchFault(stream_);
}

void OpTrail::End() {
  nvtxRangePop();
  is_within_ = false;
  // Within a layer, the next op begins where this one ends.
  if (layer_ < 0 && IsMarked()) clock_->Mark({}, enqueued_);
}

// The ops that nobody has waited for; of these, from the one that left the last mark to the one
// that would have left the next, if marks are left.
std::vector<OpRecord> OpTrail::Suspects() const {
  const int32_t left = options_.progress != nullptr ? *options_.progress : 0;
  std::vector<OpRecord> all, near;
  int32_t current = 0;
  for (int64_t i = std::max<int64_t>(0, enqueued_ - kRecords); i < enqueued_; ++i) {
    const OpRecord& op = ops_[i % kRecords];
    const bool is_behind = current == left;
    if (op.mark != 0) current = op.mark;
    if (i < finished_) continue;
    all.push_back(op);
    if (left != 0 && (is_behind || current == left)) near.push_back(op);
  }
  return near.empty() ? all : near;
}

// `verb` says of what they are suspects: "the fault is".
std::string OpTrail::DescribeSuspects(std::string verb) const {
  const std::vector<OpRecord> ops = Suspects();
  if (ops.empty()) return "";
  if (ops.size() == 1) {
    return StrCat("; ", verb, " in ", ops[0].ToString(),
                  LayersOf({&ops[0], 1, ops[0].layer, ops[0].layer}));
  }
  std::vector<Line> lines;
  for (const OpRecord& op : ops) {
    const auto same = std::ranges::find_if(lines, [&](const Line& l) { return IsSame(*l.op, op); });
    Line& line = same != lines.end() ? *same : lines.emplace_back(Line{&op, 0, op.layer, op.layer});
    ++line.count;
    line.first_layer = std::min(line.first_layer, op.layer);
    line.last_layer = std::max(line.last_layer, op.layer);
  }
  verb[0] = static_cast<char>(std::toupper(verb[0]));
  std::string text = StrCat(
      "\n", verb, " in one of these ops (ROSE_SYNC_OPS=1 waits for each and names the one):");
  for (const Line& line : lines) text += StrCat("\n  ", line.op->ToString(), LayersOf(line));
  return text;
}

// NOTE: asks again and again instead of having CUDA wait. That waits by asking too, but never gives
// up, and whoever waits is who can tell the requests. The pause keeps lists of calls, which
// profilers make, short.
template <typename Query>
void OpTrail::Poll(const Query& query, std::string_view what, const std::source_location& where) {
  constexpr auto kPause = std::chrono::microseconds(2);
  const DeviceCall call(*this);
  cudaError_t error = query();
  const bool was_ready = error != cudaErrorNotReady;
  while (error == cudaErrorNotReady) {
    const auto next = std::chrono::steady_clock::now() + kPause;
    while (std::chrono::steady_clock::now() < next) {
    }
    if (is_given_up_) {
      FailCheck(where.file_name(), static_cast<int>(where.line()), "the GPU comes on",
                StrCat(what, ": ", why_given_up_));
    }
    error = query();
  }
  if (!was_ready && error == cudaSuccess) (void)cudaGetLastError();  // "not ready" is no error
  CudaCheck(error, what, where);
}

void OpTrail::Wait(cudaEvent_t event, std::string_view what, std::source_location where) {
  Poll([&] { return cudaEventQuery(event); }, what, where);
}

void OpTrail::WaitForAll(std::string_view what, std::source_location where) {
  Poll([&] { return cudaStreamQuery(stream_); }, what, where);
}

DevicePulse OpTrail::Pulse() const {
  const std::lock_guard lock(mutex_);
  return {.is_called = depth_ > 0,
          .calls = calls_,
          .mark = options_.progress != nullptr ? *options_.progress : 0};
}

std::string OpTrail::DescribeHang() const {
  const std::lock_guard lock(mutex_);
  return DescribeSuspects("it hangs");
}

void OpTrail::GiveUp(const std::string& why) {
  const std::lock_guard lock(mutex_);
  why_given_up_ = why;
  is_given_up_ = true;
}

DeviceCall::DeviceCall(OpTrail& trail) : trail_(trail) {
  const std::lock_guard lock(trail_.mutex_);
  ++trail_.depth_;
  ++trail_.calls_;
}

DeviceCall::~DeviceCall() {
  const std::lock_guard lock(trail_.mutex_);
  --trail_.depth_;
}

std::string DescribeOps(cudaError_t error) {
  const OpTrail* trail = trail_of_thread;
  if (trail == nullptr) return "";
  if (IsFault(error)) return trail->DescribeSuspects("the fault is");
  if (!trail->is_within_) return "";
  const OpRecord& op = trail->ops_[(trail->enqueued_ - 1) % OpTrail::kRecords];
  return StrCat("; in ", op.ToString(), LayersOf({&op, 1, op.layer, op.layer}));
}

}  // namespace rose
