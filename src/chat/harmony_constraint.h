// What a Harmony answer may be, token by token: well-formed headers of the permitted kinds,
// thoughts left free, and a grammar inside the final message or a call's body alone (spec E.4).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "chat/chat_format.h"
#include "chat/harmony_render.h"
#include "request/token_constraint.h"

namespace rose {

// Bit i % 32 of word i / 32: token i is text, so no marker and no reserved id.
std::vector<uint32_t> TextTokens(const Tokenizer& tokenizer);

// An answer is any number of these, each opened by the prompt or by <|start|>assistant:
//
//   thoughts   <|channel|>analysis<|message|> text <|end|>, never two in a row, so that it ends;
//              together not above the budget
//   preamble   <|channel|>commentary<|message|> text <|end|>, where the answer has no form
//
// and then one of
//
//   final      <|channel|>final<|message|> content <|return|>; or "final <|constrain|>json"
//   a call     <|channel|>commentary to=functions.NAME<|message|> arguments <|call|>; the recipient
//              may come before the channel; and " <|constrain|>json" or " json" before <|message|>
class HarmonyConstraint : public TokenConstraint {
 public:
  // `text` is TextTokens of `tokenizer`, shared by all constraints of a format.
  HarmonyConstraint(const HarmonyIds& ids, const Tokenizer& tokenizer,
                    std::shared_ptr<const std::vector<uint32_t>> text, const OutputRules& rules);

  Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) override;

 private:
  // A message's body: what is in it, what ends it, and where it goes on.
  struct Body {
    std::shared_ptr<const Grammar> grammar;  // null = any text
    int32_t end = 0;
    int next_node = -1;  // -1 = the answer is complete
    bool is_thoughts = false;
  };
  // Headers are a trie over their tokens.
  struct Node {
    std::map<int32_t, int> next;  // by token
    int body = -1;                // the header is complete, and this is its body
  };
  // Where the answer is after some tokens.
  struct Place {
    enum class Kind {
      kHeader,
      kBody,
      kAnywhere,  // complete, or left the rules (as a draft may that will be rejected)
      kBroken,    // the grammar's library cannot say what may follow
    };
    Kind kind = Kind::kHeader;
    int index = 0;          // of the node or the body
    int64_t body_from = 0;  // tokens before the body
    int64_t thoughts = 0;   // tokens of thoughts so far
  };
  using Tokens = std::vector<int32_t>;

  void BuildHeaders(const Tokenizer& tokenizer, const OutputRules& rules);
  void AddHeader(int from, std::initializer_list<Tokens> parts, int body);
  int AddPath(int from, const Tokens& tokens);
  int AddBody(std::shared_ptr<const Grammar> grammar, int32_t end, int next_node);

  void Rewind(int64_t tokens);
  Place Step(int32_t token);
  Place Move(const Place& place, int32_t token);
  // The matcher of the body at `place`, the last one, fed with what stands in it. It may be broken.
  GrammarMatcher& Matcher(const Place& place);

  const HarmonyIds ids_;
  const std::shared_ptr<const std::vector<uint32_t>> text_;
  const int64_t thinking_budget_;
  std::vector<Node> nodes_;
  std::vector<Body> bodies_;

  Tokens output_;
  std::vector<Place> places_;  // after the first i tokens of output_
  std::unique_ptr<GrammarMatcher> matcher_;
  int64_t matcher_from_ = 0;  // tokens before its body
  int64_t matcher_to_ = 0;    // tokens that it has been fed up to
  std::vector<uint32_t> mask_;
};

}  // namespace rose
