// ChatFormat: messages to prompt tokens, and sampled tokens back to messages. One file for each
// format. Nothing below this line of the house knows a format's token ids, nothing above it a
// format's name.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/grammar.h"
#include "request/token_constraint.h"
#include "tokenizer/tokenizer.h"

namespace rose {

enum class Role { kSystem, kDeveloper, kUser, kAssistant, kTool };

// One function call of an assistant message. `arguments` is text, byte for byte.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;
};

// A message of a conversation, in the API's terms.
struct ChatMessage {
  Role role = Role::kUser;
  std::string content;
  bool has_content = true;  // an assistant message may have calls alone
  std::string reasoning;    // assistant: thoughts before content or calls; empty = none
  // Assistant: the content is said on the way to a call, though that stands in a later message.
  bool is_preamble = false;
  std::vector<ToolCall> tool_calls;
  std::string tool_name;  // tool: the function that answered (the API resolves call ids)
};

struct ToolSpec {
  std::string name;
  std::optional<std::string> description;
  std::optional<JsonValue> parameters;  // a JSON Schema; absent or null = none
  bool strict = false;                  // calls must fit the schema
  std::string field = {};               // where the request has it, for errors
};

struct ResponseFormat {
  std::string name;
  std::string description;  // empty = none
  std::string schema_json;  // compact, key order kept
};

// kNone: no thoughts, for formats that can leave them out (ChatFormat::may_skip_thoughts).
enum class ReasoningEffort { kNone, kLow, kMedium, kHigh };
std::string_view EffortName(ReasoningEffort effort);  // "low"

struct ChatRequest {
  std::vector<ChatMessage> messages;
  std::vector<ToolSpec> tools;
  // Tools that the model knows by training and that are only named: "browser", "python". Calls of
  // them are thoughts.
  std::vector<std::string> builtin_tools;
  std::optional<ResponseFormat> response_format;
  ReasoningEffort effort = ReasoningEffort::kMedium;
  std::string date;  // "YYYY-MM-DD"; empty = no date line
  // The last message, a text of the assistant, is left open: the answer goes on in it.
  bool continue_final = false;
};

// What an answer must be, beyond what the model makes of it. Thoughts stay free.
struct OutputRules {
  enum class Calls {
    kFree,       // the model calls any of `tools`, or answers
    kForbidden,  // it answers
    kRequired,   // it calls one of `tools`
  };
  struct Tool {
    std::string name;
    std::shared_ptr<const Grammar> arguments;  // of ChatFormat::ArgumentsSource; null = any text
  };
  std::shared_ptr<const Grammar> content;  // of the final message; null = any text
  Calls calls = Calls::kFree;
  std::vector<Tool> tools;
  int64_t thinking_budget = -1;  // tokens of thoughts, then they end; -1 = as many as it likes
  bool may_think = true;         // false: the prompt was rendered with ReasoningEffort::kNone
};

// What a token stream says, piece by piece. Text is valid UTF-8.
struct ChatEvent {
  enum class Kind {
    kBegin,    // a message starts
    kText,     // more of its body
    kEnd,      // it is complete, or was cut (complete = false)
    kDropped,  // text outside any message, or words of a header without a meaning: for logs only
  };
  Kind kind = Kind::kText;
  // Where the message belongs, in the API's terms; set on every event but kDropped. kHidden is what
  // nobody may see, such as a tool's answer that the model made up.
  enum class Target { kReasoning, kContent, kToolCall, kHidden };
  Target target = Target::kContent;
  // On kBegin, as the model wrote them; empty = absent.
  std::string author, channel, recipient, content_type;
  std::string tool_name;  // on kBegin of a kToolCall: the function, never empty
  std::string text;       // on kText and kDropped
  bool complete = true;   // on kEnd
};

// Incremental and total: any token stream gives events, never an error.
class ChatParser {
 public:
  virtual ~ChatParser() = default;
  virtual void Push(int32_t token, std::vector<ChatEvent>& events) = 0;
  // The stream ended.
  virtual void Finish(std::vector<ChatEvent>& events) = 0;
};

class ChatFormat {
 public:
  virtual ~ChatFormat() = default;

  // The prompt, up to where the assistant's answer begins.
  virtual Result<std::vector<int32_t>> Render(const ChatRequest& request) const = 0;
  // Whether ReasoningEffort::kNone can be had; elsewhere it is the least there is.
  virtual bool may_skip_thoughts() const = 0;
  // Sampling stops at any of these; the first is how an answer ends.
  virtual const std::vector<int32_t>& stop_ids() const = 0;
  // A parser that starts where Render ends, inside a text if that was left open. `tools` are those
  // that were rendered: a call is known by its recipient, and a declared name may lack the format's
  // prefix. Lives no longer than the format.
  virtual std::unique_ptr<ChatParser> NewParser(std::span<const ToolSpec> tools,
                                                bool continue_final = false) const = 0;
  // What the grammar of a call's arguments is compiled from: `schema` with what the format writes
  // around them.
  virtual GrammarSource ArgumentsSource(GrammarSource schema) const = 0;
  // Masks what breaks the rules, for one answer that starts where Render ends. Headers outside the
  // format's usual forms are masked too. Lives no longer than the format.
  virtual std::unique_ptr<TokenConstraint> NewConstraint(const OutputRules& rules) const = 0;
};

// What the API promises of a function's name: letters, digits, '_' and '-'.
bool IsFunctionName(std::string_view name);
// kInvalidArgument unless the last message can be left open (ChatRequest::continue_final).
Status CheckContinued(const ChatRequest& request);

// By name ("harmony", chat/registry.cc). The tokenizer must have the format's special tokens, and
// must outlive the result.
Result<std::unique_ptr<ChatFormat>> CreateChatFormat(std::string_view name,
                                                     const Tokenizer& tokenizer);
// The first format whose special tokens the tokenizer has, where there is no model to ask.
Result<std::unique_ptr<ChatFormat>> CreateChatFormatFor(const Tokenizer& tokenizer);
// The format a model speaks, by its architecture ("GptOssForCausalLM" -> "harmony").
Result<std::string> ChatFormatOf(std::string_view architecture);

}  // namespace rose
