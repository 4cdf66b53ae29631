#include "api/responses_request.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "api/chat_tools.h"
#include "api/output_form.h"
#include "api/responses_echo.h"
#include "api/responses_input.h"
#include "api/token_fields.h"

namespace rose {
namespace {

constexpr std::string_view kLogprobs = "message.output_text.logprobs";

// Fields that would change the answer and are not offered; a value that means "off" is fine. Of a
// chat's answer the last ones ask for members that a response does not have.
constexpr const char* kRefused[] = {"prompt",
                                    "conversation",
                                    "previous_input_messages",
                                    "enable_response_messages",
                                    "prompt_logprobs",
                                    "logprob_token_ids",
                                    "return_token_ids",
                                    "return_tokens_as_token_ids"};

// What may be asked to be included. All but the first say nothing here: there are no such items,
// and thoughts are sent as text, not encrypted.
constexpr std::array<std::string_view, 8> kIncludable = {kLogprobs,
                                                         "reasoning.encrypted_content",
                                                         "file_search_call.results",
                                                         "web_search_call.results",
                                                         "web_search_call.action.sources",
                                                         "message.input_image.image_url",
                                                         "computer_call_output.output.image_url",
                                                         "code_interpreter_call.outputs"};

// Fields of chat completions, and what they are called here.
constexpr std::pair<const char*, const char*> kChatFields[] = {
    {"messages", "input"},
    {"max_tokens", "max_output_tokens"},
    {"max_completion_tokens", "max_output_tokens"},
    {"response_format", "text.format"},
    {"reasoning_effort", "reasoning.effort"},
    {"logprobs", "top_logprobs"},
    {"functions", "tools"},
    {"function_call", "tool_choice"}};

class ResponsesParser {
 public:
  ResponsesParser(const JsonValue& body, const ApiContext& context)
      : body_(body), context_(context), fields_(body, "", error_) {}

  std::variant<ResponsesCall, ApiError> Parse(int64_t now) {
    if (!error_) ReadModel(fields_, context_, call_);
    if (!error_) {
      RefuseChatFields();
      Refuse(fields_, kRefused);
      if (fields_.Integer("n", 1, INT64_MIN, INT64_MAX) != 1)
        fields_.Fail("n", "must be 1: a response has one output");
      ReadKeeping();
      ReadConversation(now);
      ReadSampling(fields_, context_, call_.request.sampling);
      ReadLogprobs();
      ReadStops(fields_, context_, "stop", call_);
      call_.stream = fields_.Bool("stream", false);
      ReadTokenFields(fields_, context_, call_);
    }
    std::string echo;
    if (!error_) echo = ResponseEcho(body_, call_, error_);
    if (!error_) ReadPrompt();
    if (!error_) Constrain(fields_, context_, call_);
    if (error_) return *error_;
    call_.created = now;
    call_.id = context_.NewId("resp_");
    call_.head = {.id = call_.id,
                  .model = call_.model,
                  .created = now,
                  .background = background_,
                  .echo = std::move(echo)};
    return std::move(call_);
  }

 private:
  // Ignored they would leave an answer without what was asked for.
  void RefuseChatFields() {
    for (const auto& [chat, here] : kChatFields)
      if (fields_.Get(chat))
        fields_.Fail(chat,
                     StrCat("is a field of /v1/chat/completions; in /v1/responses it is ", here));
  }

  void ReadKeeping() {
    const bool possible = context_.responses && context_.responses->enabled();
    const bool wanted = fields_.Bool("store", true);
    call_.store = wanted && possible;
    background_ = fields_.Bool("background", false);
    if (background_ && !wanted) fields_.Fail("background", "needs store to be true");
    if (background_ && !possible)
      fields_.Fail("background", "needs responses to be stored, which this server does not do");
  }

  // The messages of the response that this one continues, with its output.
  std::vector<ChatMessage> ReadPrevious() {
    const std::string id = fields_.String("previous_response_id");
    if (id.empty()) return {};
    const auto found =
        context_.responses ? context_.responses->FindEnded(id) : ResponseStore::Ended{};
    if (found.running) {
      fields_.Fail("previous_response_id",
                   StrCat("names \"", id, "\", which is not complete; wait until it is"));
      return {};
    }
    if (!found.response) {
      fields_.Fail(UnknownResponse(id));
      return {};
    }
    // One that was cut by its limit can be continued; of these what they said is not what they
    // were to say.
    const ResponseStatus status = found.response->record->status();
    if (status == ResponseStatus::kCancelled || status == ResponseStatus::kFailed) {
      fields_.Fail("previous_response_id",
                   StrCat("names \"", id, "\", which ",
                          status == ResponseStatus::kFailed ? "has failed" : "was cancelled",
                          "; continue one that is completed, or send its input anew"));
      return {};
    }
    std::vector<ChatMessage> messages = found.response->conversation;
    for (ChatMessage& message : OutputMessages(*found.response->record))
      messages.push_back(std::move(message));
    return messages;
  }

  void ReadConversation(int64_t now) {
    ChatRequest& chat = call_.chat;
    std::vector<ChatMessage> before = ReadPrevious();
    if (error_) return;
    ResponsesInput input =
        ReadResponsesInput(body_, context_, std::move(before), call_.store, error_);
    call_.conversation = std::move(input.conversation);
    call_.input = std::move(input.items);
    instructions_ = fields_.String("instructions");
    ToolFields tools = ReadTools(body_, error_, ToolKinds::kOfResponses);
    chat.tools = std::move(tools.tools);
    call_.calls_allowed = tools.calls_allowed;
    call_.call_required = tools.call_required;
    call_.only_call = std::move(tools.only_call);
    call_.callable = std::move(tools.callable);
    call_.namespaced = std::move(tools.namespaced);
    call_.only_one_call = !fields_.Bool("parallel_tool_calls", true) || !call_.only_call.empty();
    if (const JsonValue* text = fields_.Get("text")) {
      FieldReader inner(*text, "text", error_);
      inner.RefuseOthers({"format", "verbosity"});
      chat.response_format = ReadResponseFormat(inner, "format", error_);
    }
    call_.form = FormOf(chat.response_format, "text.format");
    ReadForm(fields_, call_.form);
    if (const JsonValue* reasoning = fields_.Get("reasoning")) {
      FieldReader inner(*reasoning, "reasoning", error_);
      inner.RefuseOthers({"effort", "summary", "generate_summary"});
      const std::string effort = inner.String("effort");
      if (!effort.empty()) SetEffort(fields_, context_, "reasoning.effort", effort, chat);
    }
    chat.date = DateOf(context_, now);
  }

  void ReadLogprobs() {
    const int64_t top = fields_.Integer("top_logprobs", 0, 0, kMaxTopLogprobs);
    bool wanted = top > 0;
    const auto* include = fields_.Array("include");
    for (size_t i = 0; include && i < include->size(); ++i) {
      const std::string* name = (*include)[i].string();
      if (!name || std::find(kIncludable.begin(), kIncludable.end(), *name) == kIncludable.end())
        return fields_.FailAt(StrCat("include[", i, "]"),
                              "is nothing that can be included; \"message.output_text.logprobs\" "
                              "and \"reasoning.encrypted_content\" are");
      wanted = wanted || *name == kLogprobs;
    }
    call_.request.sampling.logprobs = wanted ? static_cast<int>(top) : -1;
  }

  void ReadPrompt() {
    const std::string truncation = fields_.String("truncation", "disabled");
    if (truncation != "disabled" && truncation != "auto")
      return fields_.Fail("truncation", "must be \"disabled\" or \"auto\"");
    SetMessages(call_.conversation);
    if (truncation == "auto") Truncate();
    ReadPromptAndLimits(fields_, context_, "max_output_tokens", "input", call_);
  }

  // The instructions and some of the conversation.
  void SetMessages(std::span<const ChatMessage> conversation) {
    std::vector<ChatMessage>& messages = call_.chat.messages;
    messages.clear();
    if (!instructions_.empty())
      messages.push_back({.role = Role::kDeveloper, .content = instructions_});
    for (ChatMessage& turn : JoinTurns(conversation)) messages.push_back(std::move(turn));
  }

  // Leaves out as many of the oldest messages as it takes to fit, the last one never.
  void Truncate() {
    const int64_t wanted = fields_.Integer("max_output_tokens", 1, 1, INT64_MAX);
    const int64_t room = context_.max_context - std::min(wanted, context_.max_context);
    const auto fits = [&] {
      const auto prompt = context_.format->Render(call_.chat);
      return !prompt.ok() || static_cast<int64_t>(prompt->size()) <= room;
    };
    const auto keep_last = [&](size_t count) {
      SetMessages(std::span(call_.conversation).last(count));
    };
    if (fits() || call_.conversation.empty()) return;
    size_t low = 1, high = call_.conversation.size();  // `high` messages are too many
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      keep_last(middle);
      (fits() ? low : high) = middle;
    }
    keep_last(low);
  }

  const JsonValue& body_;
  const ApiContext& context_;
  std::optional<ApiError> error_;
  FieldReader fields_;
  ResponsesCall call_;
  std::string instructions_;
  bool background_ = false;
};

}  // namespace

std::variant<ResponsesCall, ApiError> ParseResponsesRequest(std::string_view body,
                                                            const ApiContext& context,
                                                            int64_t now) {
  const auto json = ParseJson(body);
  if (!json.ok()) return ErrorFromStatus(json.status());
  return ResponsesParser(*json, context).Parse(now);
}

ApiError UnknownResponse(std::string_view id) {
  return {.http_status = 404,
          .message = StrCat("Response with id '", id, "' not found."),
          .param = "response_id",
          .code = "response_not_found",
          .type = "invalid_request_error"};
}

}  // namespace rose
