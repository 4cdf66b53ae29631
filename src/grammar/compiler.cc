#include "grammar/compiler.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "grammar/json_schema.h"

namespace rose {
namespace {

constexpr int64_t kMaxSourceBytes = 256 << 10;

std::string KeyOf(const GrammarSource& source) {
  std::string key = std::to_string(static_cast<int>(source.kind));
  for (const std::string* part : {&source.before, &source.after})
    key += StrCat(part->size(), ":", *part);
  return key + source.text;
}

// The checks that cost little come first, on the caller's thread.
Result<GrammarSource> Prepare(const GrammarSource& source) {
  if (static_cast<int64_t>(source.text.size()) > kMaxSourceBytes)
    return InvalidArgument("the grammar has ", source.text.size(), " bytes; at most ",
                           kMaxSourceBytes, " are taken");
  if (source.kind != GrammarSource::Kind::kJsonSchema) return source;
  ROSE_ASSIGN_OR_RETURN(std::string schema, PrepareJsonSchema(source.text));
  return GrammarSource{source.kind, std::move(schema), source.before, source.after};
}

}  // namespace

struct GrammarCompiler::Job {
  GrammarSource source;
  std::string key;
  int64_t callers = 0;    // that wait for it now
  bool queued = true;     // no thread has taken it
  bool given_up = false;  // its callers were told that it takes too long
  std::optional<Outcome> outcome;

  // That it holds: its source (which stands in the key and in the map's), its grammar.
  int64_t bytes() const {
    constexpr int64_t kOverhead = 512;
    const int64_t grammar = outcome && outcome->ok() ? outcome->value()->bytes() : 0;
    return kOverhead + 2 * std::ssize(key) + std::ssize(source.text) + grammar;
  }
};

Result<std::unique_ptr<GrammarCompiler>> GrammarCompiler::Create(
    const Tokenizer& tokenizer, const GrammarCompilerConfig& config) {
  if (!HasGrammars())
    return Unsupported(
        "this server was built without structured output (build it with a Rust compiler at hand)");
  return std::unique_ptr<GrammarCompiler>(new GrammarCompiler(tokenizer, config));
}

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, const GrammarCompilerConfig& config)
    : tokenizer_(tokenizer), config_(config) {
  for (int i = 0; i < config.threads; ++i) {
    threads_.emplace_back([this, i] {
      if (i == 0) MakeVocabulary();
      Run();
    });
  }
}

GrammarCompiler::~GrammarCompiler() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void GrammarCompiler::MakeVocabulary() {
  Result<std::shared_ptr<const GrammarVocabulary>> made = GrammarVocabulary::Create(tokenizer_);
  std::lock_guard lock(mutex_);
  vocabulary_status_ = made.status();
  if (made.ok()) vocabulary_ = std::move(made).value();
  changed_.notify_all();
}

Result<std::shared_ptr<const Grammar>> GrammarCompiler::Compile(const GrammarSource& source,
                                                                Deadline deadline) {
  ROSE_ASSIGN_OR_RETURN(GrammarSource prepared, Prepare(source));
  std::unique_lock lock(mutex_);
  if (vocabulary_ == nullptr) {  // just after the start
    changed_.wait(lock, [&] { return vocabulary_ != nullptr || !vocabulary_status_.ok(); });
    deadline = NewDeadline();
  }
  ROSE_RETURN_IF_ERROR(vocabulary_status_);

  std::string key = KeyOf(prepared);
  std::shared_ptr<Job> job;
  if (const auto known = by_source_.find(key); known != by_source_.end()) {
    recent_.splice(recent_.begin(), recent_, known->second);
    job = recent_.front();
  } else {
    if (static_cast<int64_t>(waiting_.size()) >= config_.max_waiting)
      return Unavailable("too many grammars are waiting to be compiled; try again later");
    job = std::make_shared<Job>(Job{.source = std::move(prepared), .key = key});
    recent_.push_front(job);
    known_bytes_ += job->bytes();
    by_source_.emplace(std::move(key), recent_.begin());
    waiting_.push_back(job);
    Forget();
    changed_.notify_all();
  }

  const Status too_slow = InvalidArgument("it takes more than ", config_.deadline.count(),
                                          " ms to compile; make it smaller or simpler");
  if (job->given_up && !job->outcome) return too_slow;
  ++job->callers;
  changed_.wait_until(lock, deadline, [&] { return job->outcome.has_value() || stopped_; });
  --job->callers;
  if (job->outcome) return *job->outcome;
  if (job->queued) {
    // Nobody has begun: the threads are busy with others. It may be asked for again.
    if (job->callers == 0) {
      std::erase(waiting_, job);
      const auto known = by_source_.find(job->key);
      if (known != by_source_.end() && *known->second == job) Drop(known->second);
    }
    return Unavailable("the compiler of grammars is busy; try again later");
  }
  job->given_up = true;
  return too_slow;
}

// Drops the outcomes that were used the longest ago; jobs under way stay known.
void GrammarCompiler::Forget() {
  auto at = recent_.end();
  while ((static_cast<int64_t>(recent_.size()) > config_.cached ||
          known_bytes_ > config_.cached_bytes) &&
         at != recent_.begin()) {
    --at;
    if ((*at)->outcome) Drop(at++);
  }
}

void GrammarCompiler::Drop(std::list<std::shared_ptr<Job>>::iterator place) {
  known_bytes_ -= (*place)->bytes();
  by_source_.erase((*place)->key);
  recent_.erase(place);
}

int64_t GrammarCompiler::cached_bytes() {
  std::lock_guard lock(mutex_);
  return known_bytes_;
}

void GrammarCompiler::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopped_ || (vocabulary_ != nullptr && !waiting_.empty()); });
    if (stopped_) return;
    const std::shared_ptr<Job> job = waiting_.front();
    waiting_.pop_front();
    job->queued = false;
    const auto vocabulary = vocabulary_;
    lock.unlock();
    std::optional<Outcome> outcome;
    try {
      outcome = CompileGrammar(job->source, vocabulary);
    } catch (const std::exception& error) {
      outcome = Status(StatusCode::kInternal, error.what());
    }
    lock.lock();
    // It is still known: only those with an outcome are forgotten, and those that nobody began.
    known_bytes_ -= job->bytes();
    job->outcome = std::move(outcome);
    job->source.text = {};  // the key has it
    known_bytes_ += job->bytes();
    Forget();
    changed_.notify_all();
  }
}

}  // namespace rose
