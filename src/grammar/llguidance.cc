#include "grammar/llguidance.h"

#ifdef ROSE_LLGUIDANCE
#include <llguidance.h>

// Of third_party/llguidance/src/lib.rs: what this thread holds of the library's heap.
extern "C" int64_t rose_llg_held_bytes(void);
#endif

#include <bit>
#include <utility>
#include <vector>

#include "base/json.h"
#include "grammar/library_reason.h"

namespace rose {

#ifdef ROSE_LLGUIDANCE

namespace {

// The library needs an end-of-text token. Ours is one past the vocabulary, so that what ends a text
// stays the caller's affair; its bit in a mask says that the text may end.
int32_t EndToken(int64_t vocab) {
  return static_cast<int32_t>(vocab);
}

struct FreeTokenizer {
  void operator()(LlgTokenizer* p) const { llg_free_tokenizer(p); }
};
struct FreeMatcher {
  void operator()(LlgMatcher* p) const { llg_free_matcher(p); }
};
using MatcherPtr = std::unique_ptr<LlgMatcher, FreeMatcher>;

const char* KindName(GrammarSource::Kind kind) {
  switch (kind) {
    case GrammarSource::Kind::kJsonSchema:
      return "json_schema";
    case GrammarSource::Kind::kRegex:
      return "regex";
    case GrammarSource::Kind::kLark:
      return "lark";
  }
  return "";
}

std::string Reason(LlgMatcher* matcher) {
  const char* text = llg_matcher_get_error(matcher);
  return LibraryReason(text == nullptr ? "" : text);
}

}  // namespace

struct GrammarVocabulary::Impl {
  std::unique_ptr<LlgTokenizer, FreeTokenizer> tokenizer;
  int64_t vocab = 0;               // without the end token
  std::vector<uint32_t> ordinary;  // mask of the tokens that are text
};

struct Grammar::Impl {
  std::shared_ptr<const GrammarVocabulary> vocabulary;
  MatcherPtr prototype;  // at the beginning of the text; only cloned
  int64_t bytes = 0;
};

struct GrammarMatcher::Impl {
  std::shared_ptr<const GrammarVocabulary> vocabulary;
  MatcherPtr matcher;
  std::vector<uint32_t> mask;  // of the current place, if has_mask
  bool has_mask = false;
  bool accepting = false;
};

Result<std::shared_ptr<const GrammarVocabulary>> GrammarVocabulary::Create(
    const Tokenizer& tokenizer) {
  auto impl = std::make_unique<Impl>();
  impl->vocab = tokenizer.vocab();
  impl->ordinary.assign((impl->vocab + 32) / 32, 0);
  std::vector<uint32_t> lengths(impl->vocab + 1, 0);
  std::string bytes;
  for (int32_t id = 0; id < impl->vocab; ++id) {
    // Special tokens have no bytes here, so that no text can hold one.
    if (tokenizer.IsSpecial(id)) continue;
    const std::string_view token = tokenizer.Bytes(id);
    if (token.empty()) continue;
    lengths[id] = static_cast<uint32_t>(token.size());
    bytes += token;
    impl->ordinary[id / 32] |= uint32_t{1} << (id % 32);
  }

  LlgTokenizerInitV2 init = {};
  init.struct_size = sizeof(init);
  init.vocab_size = static_cast<uint32_t>(impl->vocab + 1);
  init.tok_eos = static_cast<uint32_t>(EndToken(impl->vocab));
  init.token_lens = lengths.data();
  init.token_bytes = reinterpret_cast<const uint8_t*>(bytes.data());
  // Only its forced tokens, which rose does not use, would need the real one.
  init.use_approximate_greedy_tokenize_fn = true;
  char error[256] = "";
  impl->tokenizer.reset(llg_new_tokenizer_v2(&init, error, sizeof(error)));
  if (impl->tokenizer == nullptr)
    return Status(StatusCode::kInternal,
                  StrCat("the grammar library does not take the vocabulary: ", error));
  return std::make_shared<const GrammarVocabulary>(std::move(impl));
}

namespace {

int64_t Count(std::span<const uint32_t> mask) {
  int64_t count = 0;
  for (const uint32_t word : mask) count += std::popcount(word);
  return count;
}

// The token of a mask that is the first of those from `from` on, around its end. It has one.
int32_t TokenFrom(std::span<const uint32_t> mask, int32_t from) {
  const auto bits = static_cast<int32_t>(mask.size()) * 32;
  for (int32_t i = 0; i < bits; ++i) {
    const int32_t id = (from + i) % bits;
    if ((mask[id / 32] >> (id % 32)) & 1) return id;
  }
  ROSE_CHECK(false, "a mask without tokens");
}

// Takes the first steps of some texts: what runs into a limit there is the caller's fault, and he
// should hear of it before anything is drawn. The walks are always the same, and differ in which of
// the permitted tokens they take: single bytes, long tokens, and those in between. They are short,
// but steps that leave little choice, such as a property's name, do not count.
Status TryOut(const Grammar& grammar) {
  constexpr int kChoices = 6, kSteps = 40;
  constexpr int64_t kLittle = 100;
  for (const int32_t stride : {0, 20'011, 70'001, 199'000}) {
    const auto matcher = grammar.NewMatcher();
    for (int step = 0, choices = 0; step < kSteps && choices < kChoices; ++step) {
      const auto next = matcher->Next();
      if (!next.ok()) return next.status();
      const int64_t count = Count(next->mask);
      if (count == 0) break;
      if (count > kLittle) ++choices;
      // A failure shows at the next Next.
      (void)matcher->Consume(TokenFrom(next->mask, stride * (1 + step)));
    }
  }
  return Status();
}

// A schema with fixed texts around its value, as a grammar of the library that holds it.
GrammarSource WithTextAround(const GrammarSource& source) {
  if (source.before.empty() && source.after.empty()) return source;
  GrammarSource lark{GrammarSource::Kind::kLark, "start:"};
  const auto add_text = [&](const std::string& text) {
    if (text.empty()) return;
    lark.text += ' ';
    AppendJsonString(lark.text, text);
  };
  add_text(source.before);
  lark.text += " value";
  add_text(source.after);
  lark.text += "\nvalue: %json " + source.text + "\n";
  return lark;
}

}  // namespace

Result<std::shared_ptr<const Grammar>> CompileGrammar(
    const GrammarSource& given, std::shared_ptr<const GrammarVocabulary> vocabulary) {
  const GrammarSource source = WithTextAround(given);
  if (source.text.find('\0') != std::string::npos)
    return InvalidArgument("a grammar must not hold a NUL character");
  LlgConstraintInit init = {};
  llg_constraint_init_set_defaults(&init, vocabulary->impl().tokenizer.get());
  init.log_stderr_level = 0;
  init.log_buffer_level = 0;
  init.limits.verbose_errors = false;
  // About 2 KB each; what a text needs is far below.
  init.limits.max_lexer_states = 50'000;

  auto impl = std::make_unique<Grammar::Impl>();
  const int64_t held = rose_llg_held_bytes();
  impl->prototype.reset(llg_new_matcher(&init, KindName(source.kind), source.text.c_str()));
  if (llg_matcher_is_error(impl->prototype.get()) ||
      llg_matcher_compute_mask(impl->prototype.get()) != 0)
    return InvalidArgument(Reason(impl->prototype.get()));
  impl->bytes = rose_llg_held_bytes() - held;
  impl->vocabulary = std::move(vocabulary);
  auto grammar = std::make_shared<const Grammar>(std::move(impl));
  ROSE_RETURN_IF_ERROR(TryOut(*grammar));
  return grammar;
}

int64_t Grammar::bytes() const {
  return impl_->bytes;
}

std::unique_ptr<GrammarMatcher> Grammar::NewMatcher() const {
  auto impl = std::make_unique<GrammarMatcher::Impl>();
  impl->vocabulary = impl_->vocabulary;
  impl->matcher.reset(llg_clone_matcher(impl_->prototype.get()));
  impl->mask.resize(impl->vocabulary->impl().ordinary.size());
  return std::unique_ptr<GrammarMatcher>(new GrammarMatcher(std::move(impl)));
}

Result<GrammarMatcher::Step> GrammarMatcher::Next() {
  Impl& s = *impl_;
  const GrammarVocabulary::Impl& vocabulary = s.vocabulary->impl();
  if (!s.has_mask) {
    if (llg_matcher_compute_mask_into(s.matcher.get(), s.mask.data(), s.mask.size() * 4) != 0)
      return InvalidArgument(Reason(s.matcher.get()));
    const int32_t end = EndToken(vocabulary.vocab);
    s.accepting = (s.mask[end / 32] >> (end % 32)) & 1;
    uint32_t any = 0;
    for (size_t i = 0; i < s.mask.size(); ++i) any |= s.mask[i] &= vocabulary.ordinary[i];
    if (any == 0 && !s.accepting) return InvalidArgument("no text fits it from here on");
    s.has_mask = true;
  }
  return Step{s.mask, s.accepting};
}

bool GrammarMatcher::Consume(int32_t token) {
  Impl& s = *impl_;
  const std::vector<uint32_t>& ordinary = s.vocabulary->impl().ordinary;
  if (token < 0 || token >= s.vocabulary->impl().vocab ||
      ((ordinary[token / 32] >> (token % 32)) & 1) == 0)
    return false;
  const auto id = static_cast<uint32_t>(token);
  // A refused token would break the matcher for good, so it is asked first.
  const bool allowed = s.has_mask ? (s.mask[token / 32] >> (token % 32)) & 1
                                  : llg_matcher_validate_tokens(s.matcher.get(), &id, 1) == 1;
  if (!allowed || llg_matcher_consume_token(s.matcher.get(), id) != 0) return false;
  s.has_mask = false;
  return true;
}

bool GrammarMatcher::broken() const {
  return llg_matcher_is_error(impl_->matcher.get());
}

void GrammarMatcher::Rollback(int64_t tokens) {
  if (tokens == 0) return;
  // A failure shows at the next Next.
  (void)!llg_matcher_rollback(impl_->matcher.get(), static_cast<size_t>(tokens));
  impl_->has_mask = false;
}

bool HasGrammars() {
  return true;
}

#else  // a build without the library: nothing can be made, so nothing below Create is reached

struct GrammarVocabulary::Impl {};
struct Grammar::Impl {};
struct GrammarMatcher::Impl {};

Result<std::shared_ptr<const GrammarVocabulary>> GrammarVocabulary::Create(const Tokenizer&) {
  return Unsupported("this server was built without structured output");
}
Result<std::shared_ptr<const Grammar>> CompileGrammar(const GrammarSource&,
                                                      std::shared_ptr<const GrammarVocabulary>) {
  return Unsupported("this server was built without structured output");
}
std::unique_ptr<GrammarMatcher> Grammar::NewMatcher() const {
  return nullptr;
}
int64_t Grammar::bytes() const {
  return 0;
}
Result<GrammarMatcher::Step> GrammarMatcher::Next() {
  return Step{};
}
bool GrammarMatcher::Consume(int32_t) {
  return false;
}
bool GrammarMatcher::broken() const {
  return true;
}
void GrammarMatcher::Rollback(int64_t) {}
bool HasGrammars() {
  return false;
}

#endif

GrammarVocabulary::GrammarVocabulary(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrammarVocabulary::~GrammarVocabulary() = default;
Grammar::Grammar(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Grammar::~Grammar() = default;
GrammarMatcher::GrammarMatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrammarMatcher::~GrammarMatcher() = default;

}  // namespace rose
