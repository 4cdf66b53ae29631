// GrammarCompiler: grammars on demand, on threads of its own, with a deadline and a cache, so that
// a hostile one costs its sender an error and nobody else anything.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "grammar/grammar.h"
#include "grammar/llguidance.h"
#include "tokenizer/tokenizer.h"

namespace rose {

struct GrammarCompilerConfig {
  int threads = 2;
  std::chrono::milliseconds deadline{800};  // for one grammar, waiting included
  int64_t max_waiting = 64;                 // grammars that wait for a thread
  int64_t cached = 256;                     // outcomes kept, the least used go first
  int64_t cached_bytes = 64 << 20;          // of the grammars and their sources
};

// Thread-safe.
class GrammarCompiler {
 public:
  // kUnsupported in a build without the grammar library. The vocabulary's trie is made in the
  // background. `tokenizer` outlives the compiler.
  static Result<std::unique_ptr<GrammarCompiler>> Create(const Tokenizer& tokenizer,
                                                         const GrammarCompilerConfig& config = {});
  ~GrammarCompiler();

  // Waits for the outcome until `deadline`, by default one that begins now; a request with several
  // grammars has one for all. kInvalidArgument says what is wrong with the source (beyond a limit,
  // not understood, too slow to compile); kUnavailable: too many are waiting. Outcomes are
  // remembered, failures too, within the bounds of the configuration; what a request still uses
  // lives on.
  using Deadline = std::chrono::steady_clock::time_point;
  Deadline NewDeadline() const { return std::chrono::steady_clock::now() + config_.deadline; }
  Result<std::shared_ptr<const Grammar>> Compile(const GrammarSource& source, Deadline deadline);
  Result<std::shared_ptr<const Grammar>> Compile(const GrammarSource& source) {
    return Compile(source, NewDeadline());
  }

  // What is remembered takes, about.
  int64_t cached_bytes();

 private:
  using Outcome = Result<std::shared_ptr<const Grammar>>;
  struct Job;

  GrammarCompiler(const Tokenizer& tokenizer, const GrammarCompilerConfig& config);
  void Run();
  void MakeVocabulary();
  void Forget();
  void Drop(std::list<std::shared_ptr<Job>>::iterator place);

  const Tokenizer& tokenizer_;
  const GrammarCompilerConfig config_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  bool stopped_ = false;
  std::shared_ptr<const GrammarVocabulary> vocabulary_;
  Status vocabulary_status_;
  std::deque<std::shared_ptr<Job>> waiting_;
  std::list<std::shared_ptr<Job>> recent_;  // known jobs, the last used in front
  std::unordered_map<std::string, std::list<std::shared_ptr<Job>>::iterator> by_source_;
  int64_t known_bytes_ = 0;  // of the jobs in recent_
  std::vector<std::thread> threads_;
};

}  // namespace rose
