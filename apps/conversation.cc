#include "conversation.h"

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <ctime>
#include <deque>
#include <mutex>
#include <utility>

#include "api/chat_completions.h"

namespace rose {
namespace {

// Events on their way from the engine's thread.
class Inbox {
 public:
  void Put(const TokenEvent& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    changed_.notify_one();
  }
  TokenEvent Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !events_.empty(); });
    TokenEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TokenEvent> events_;
};

// Shows events and gathers the message that they make.
void Show(const std::vector<ChatEvent>& events, AnswerPrinter& printer, ChatMessage& message) {
  for (const ChatEvent& event : events) {
    if (event.kind != ChatEvent::Kind::kText) continue;
    if (event.target == ChatEvent::Target::kReasoning) {
      printer.Reasoning(event.text);
      message.reasoning += event.text;
    } else if (event.target == ChatEvent::Target::kContent) {
      printer.Content(event.text);
      message.content += event.text;
    }
  }
}

std::string Summary(int64_t tokens, double tokens_per_second, FinishReason finish) {
  std::array<char, 80> rate{};
  std::snprintf(rate.data(), rate.size(), "%.1f tokens/s", tokens_per_second);
  const char* end = finish == FinishReason::kLength      ? ", cut at the limit"
                    : finish == FinishReason::kCancelled ? ", stopped"
                                                         : "";
  return StrCat("[", tokens, " tokens, ", rate.data(), end, "]");
}

}  // namespace

Conversation::Conversation(Engine& engine, const ChatFormat& format, ConversationOptions options)
    : engine_(engine), format_(format), options_(std::move(options)) {}

void Conversation::Reset() {
  messages_.clear();
}

bool Conversation::Stop() {
  const RequestId running = running_.exchange(0);
  if (running != 0) engine_.Cancel(running);
  return running != 0;
}

ChatRequest Conversation::RequestOf(std::string_view question) const {
  ChatRequest chat;
  if (!options_.system.empty()) {
    ChatMessage system;
    system.role = Role::kSystem;
    system.content = options_.system;
    chat.messages.push_back(std::move(system));
  }
  chat.messages.insert(chat.messages.end(), messages_.begin(), messages_.end());
  ChatMessage asked;
  asked.content = question;
  chat.messages.push_back(std::move(asked));
  chat.effort = options_.effort;
  chat.date = UtcDate(std::time(nullptr));
  return chat;
}

Result<Request> Conversation::Prepare(const ChatRequest& chat) const {
  Request request;
  ROSE_ASSIGN_OR_RETURN(request.prompt, format_.Render(chat));
  const int64_t room = engine_.max_context() - static_cast<int64_t>(request.prompt.size());
  if (room < 1) {
    return InvalidArgument("the conversation is longer than the context of ", engine_.max_context(),
                           " tokens; /reset begins a new one");
  }
  request.max_tokens = options_.max_tokens > 0 ? std::min(options_.max_tokens, room) : room;
  request.stop_ids = format_.stop_ids();
  request.sampling = options_.sampling;
  return request;
}

Status Conversation::Ask(std::string_view question, AnswerPrinter& printer) {
  const ChatRequest chat = RequestOf(question);
  ROSE_ASSIGN_OR_RETURN(Request request, Prepare(chat));
  Inbox inbox;
  request.on_event = [&inbox](const TokenEvent& event) { inbox.Put(event); };
  ROSE_ASSIGN_OR_RETURN(const RequestId id, engine_.Submit(std::move(request)));
  running_ = id;

  const auto parser = format_.NewParser(chat.tools);
  ChatMessage answer;
  answer.role = Role::kAssistant;
  int64_t tokens = 0, first_tokens = 0;
  TokenEvent event;
  std::chrono::steady_clock::time_point first;
  do {
    event = inbox.Take();
    if (tokens == 0) {
      first = std::chrono::steady_clock::now();
      first_tokens = static_cast<int64_t>(event.tokens.size());
    }
    std::vector<ChatEvent> events;
    for (const SampledToken& token : event.tokens) parser->Push(token.id, events);
    tokens += static_cast<int64_t>(event.tokens.size());
    if (event.finish != FinishReason::kNone) parser->Finish(events);
    Show(events, printer, answer);
  } while (event.finish == FinishReason::kNone);
  running_ = 0;
  printer.End();
  if (event.finish == FinishReason::kError) {
    return Status(StatusCode::kInternal, StrCat("the engine failed: ", event.error));
  }
  // The rate of decoding: the wait for the first token is the prompt's.
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - first;
  const double rate = taken.count() > 0 ? (tokens - first_tokens) / taken.count() : 0;
  printer.Note(Summary(tokens, rate, event.finish));
  // A turn that was cut before its answer began is not remembered: half a thought would mislead.
  if (answer.content.empty()) return Status();
  messages_.push_back(chat.messages.back());
  messages_.push_back(std::move(answer));
  return Status();
}

}  // namespace rose
