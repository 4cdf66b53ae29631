// Sampled tokens of a Qwen3 answer to events (docs/chat.md says what broken streams mean).
#pragma once

#include <set>
#include <string>

#include "chat/call_json.h"
#include "chat/chat_format.h"
#include "chat/qwen3.h"

namespace rose {

class Qwen3Parser : public ChatParser {
 public:
  // `tokenizer` outlives the parser. With `continues` the stream begins inside the answer's text.
  Qwen3Parser(const Qwen3Ids& ids, const Tokenizer& tokenizer, std::span<const ToolSpec> tools,
              bool continues);

  void Push(int32_t token, std::vector<ChatEvent>& events) override;
  void Finish(std::vector<ChatEvent>& events) override;

 private:
  enum class Place {
    kAnswer,    // of the assistant, outside of thoughts and calls
    kThoughts,  // after <think>
    kCall,      // after <tool_call>
    kRole,      // after <|im_start|>, up to the line's end
    kHidden,    // in a message of somebody else
    kResponse,  // after <tool_response>: what the model made up
    kBetween,   // after <|im_end|>
  };
  using Events = std::vector<ChatEvent>;

  void Marker(int32_t token, Events& events);
  void Text(std::string text, Events& events);
  void RoleText(std::string text, Events& events);
  void CallText(const std::string& text, Events& events);
  // Text of thoughts or of the answer, whose line ends before and after are not part of it.
  void BodyText(std::string text, ChatEvent::Target target, Events& events);

  void Enter(Place place) { place_ = place; }
  // The role is as much as there is of it.
  void EndRole(Events& events);
  void Begin(ChatEvent::Target target, std::string author, Events& events);
  // Ends what is open. `line_ends`: how many of the held ones are not part of it, -1 = all.
  void Close(bool complete, int64_t line_ends, Events& events);
  void EndCall(Events& events);
  void Emit(std::string text, Events& events);
  static void Drop(std::string_view text, Events& events);
  bool IsCallable(std::string_view name) const;

  const Qwen3Ids ids_;
  const Tokenizer& tokenizer_;
  std::set<std::string, std::less<>> tool_names_;
  Place place_ = Place::kAnswer;
  bool continues_;        // inside a text whose begin is still to be said
  bool is_open_ = false;  // a message has begun
  ChatEvent::Target target_ = ChatEvent::Target::kContent;  // of that
  std::string held_;                                        // line ends that may be its last
  std::string role_;
  CallJson call_;
  bool is_thought_ = false;  // the call turned out to be none
  Utf8Stream stream_;
};

}  // namespace rose
