// What an answer may be, token by token: the structure of a chat format as a graph over tokens,
// with a grammar inside single bodies alone (spec E.4). Each format lays out its own graph.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

#include "chat/chat_format.h"
#include "request/token_constraint.h"

namespace rose {

// Bit i % 32 of word i / 32: token i is text, so no marker and no reserved id.
std::vector<uint32_t> TextTokens(const Tokenizer& tokenizer);

// A format's graph. Nodes are joined by single tokens; a body is a text of any length. It begins at
// a node, which may have tokens as well: what comes there first decides.
class AnswerPlan {
 public:
  static constexpr int kComplete = -1;  // in place of a node: anything may follow
  static constexpr int kNoBody = -1;
  using Tokens = std::vector<int32_t>;

  struct Body {
    std::shared_ptr<const Grammar> grammar;  // null = any text
    std::map<int32_t, int> ends = {};        // marker that ends it -> node, or kComplete
    bool is_thoughts = false;                // counts against the budget
  };
  struct Node {
    std::map<int32_t, int> next;  // token -> node, or kComplete
    int body = kNoBody;
  };

  explicit AnswerPlan(int64_t thinking_budget) : thinking_budget_(thinking_budget), nodes_(1) {}

  // The answer begins at node 0, which is there.
  int AddNode();
  // The node behind `tokens` from node `from`; makes what is not there yet.
  int AddPath(int from, const Tokens& tokens);
  // The same for several paths, one behind the other, whose last node gets the body.
  void AddHeader(int from, std::initializer_list<Tokens> parts, int body);
  // From `from` over `tokens`, which are no part of another path, to a node that is there.
  void AddLink(int from, const Tokens& tokens, int to);
  int AddBody(Body body);

  const Node& node(int index) const { return nodes_[index]; }
  const Body& body(int index) const { return bodies_[index]; }
  Body& body(int index) { return bodies_[index]; }
  int64_t thinking_budget() const { return thinking_budget_; }

 private:
  int64_t thinking_budget_;  // tokens of thoughts, -1 = any number
  std::vector<Node> nodes_;
  std::vector<Body> bodies_;
};

class AnswerConstraint : public TokenConstraint {
 public:
  // `text` is TextTokens of the tokenizer, shared by all constraints of a format.
  AnswerConstraint(AnswerPlan plan, std::shared_ptr<const std::vector<uint32_t>> text);

  Result<std::span<const uint32_t>> Allowed(std::span<const int32_t> output) override;

 private:
  // Where the answer is after some tokens.
  struct Place {
    enum class Kind {
      kInside,    // at a node, in a body, or where a body may begin at a node
      kAnywhere,  // complete, or left the rules (as a draft may that will be rejected)
      kBroken,    // the grammar's library cannot say what may follow
    };
    Kind kind = Kind::kInside;
    int node = -1;  // whose tokens may follow; -1 = none
    int body = AnswerPlan::kNoBody;
    int64_t body_from = 0;  // tokens before the body
    int64_t thoughts = 0;   // tokens of thoughts so far
  };

  void Rewind(int64_t tokens);
  Place Step(int32_t token);
  Place Move(const Place& place, int32_t token);
  Place At(int node, int64_t tokens) const;
  // Adds what may follow in the body at `place`.
  Status AllowInBody(const Place& place);
  // The matcher of the body at `place`, the last one, fed with what stands in it. It may be broken.
  GrammarMatcher& Matcher(const Place& place);

  const AnswerPlan plan_;
  const std::shared_ptr<const std::vector<uint32_t>> text_;

  std::vector<int32_t> output_;
  std::vector<Place> places_;  // after the first i tokens of output_
  std::unique_ptr<GrammarMatcher> matcher_;
  int matcher_body_ = AnswerPlan::kNoBody;
  int64_t matcher_from_ = 0;  // tokens before its body
  int64_t matcher_to_ = 0;    // tokens that it has been fed up to
  std::vector<uint32_t> mask_;
};

}  // namespace rose
