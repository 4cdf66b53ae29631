#include "api/responses_answer.h"

#include <algorithm>
#include <utility>

#include "api/chat_choice.h"

namespace rose {
struct ResponsesAnswer::State {
  State(ResponsesCall& the_call, const ApiContext& the_context)
      : context(the_context),
        prompt_tokens(static_cast<int64_t>(the_call.request.prompt.size())),
        namespaced(std::move(the_call.namespaced)),
        call(Take(the_call)),
        choice(call, the_context),
        store(the_call.store ? the_context.responses : nullptr),
        stored(std::make_shared<StoredResponse>()) {
    stored->record = std::make_shared<ResponseRecord>(std::move(the_call.head));
    if (!store) return;
    stored->conversation = std::move(the_call.conversation);
    stored->input = std::move(the_call.input);
  }

  // What a stream that may live for minutes needs of its call.
  static Generation Take(ResponsesCall& call) {
    call.ForgetPrompt();
    return std::move(static_cast<Generation&>(call));
  }

  ResponseRecord& record() { return *stored->record; }
  const ResponseRecord& record() const { return *stored->record; }

  // The function that the model calls so.
  ToolName NameOf(const std::string& flat) const {
    const auto found = namespaced.find(flat);
    return found == namespaced.end() ? ToolName{"", flat} : found->second;
  }

  void Apply(const ChoiceDelta& delta) {
    switch (delta.kind) {
      case ChoiceDelta::Kind::kReasoning:
        return Say(ResponseItem::Kind::kReasoning, "rs_", delta);
      case ChoiceDelta::Kind::kContent:
        return Say(ResponseItem::Kind::kMessage, "msg_", delta);
      case ChoiceDelta::Kind::kCallOpened:
        message = delta.message;
        return record().OpenCall(context.NewId("fc_"), delta.call_id, NameOf(delta.text));
      case ChoiceDelta::Kind::kArguments:
        return record().Say(delta.text);
      case ChoiceDelta::Kind::kClosed:
        if (delta.message == message) record().Close(delta.complete);
        return;
    }
  }
  void Say(ResponseItem::Kind kind, std::string_view prefix, const ChoiceDelta& delta) {
    if (delta.message != message) {
      message = delta.message;
      record().Open(kind, context.NewId(prefix));
    }
    record().Say(delta.text, delta.logprobs);
  }

  void End() {
    if ((failed = choice.failed())) return Close(ResponseStatus::kFailed, failed->message);
    if (choice.finish_reason() == "length") return Close(ResponseStatus::kIncomplete);
    const auto& items = record().items();
    const bool only_thoughts = std::all_of(items.begin(), items.end(), [](const auto& item) {
      return item.kind == ResponseItem::Kind::kReasoning;
    });
    if (only_thoughts) record().Open(ResponseItem::Kind::kMessage, context.NewId("msg_"));
    Close(ResponseStatus::kCompleted);
  }
  void Close(ResponseStatus status, std::string failure = {}) {
    record().End(status,
                 {.input_tokens = prompt_tokens,
                  .cached_tokens = choice.cached_tokens(),
                  .output_tokens = choice.completion_tokens(),
                  .reasoning_tokens = choice.reasoning_tokens()},
                 std::move(failure));
    stored->cancel = nullptr;
    // Who waited for a failed one has its error; of one in the background nobody knows yet.
    if (store && (status != ResponseStatus::kFailed || record().head().background || call.stream))
      store->AddEnded(stored);
  }
  void Cancel() {
    if (record().ended()) return;
    Close(ResponseStatus::kCancelled);
    record().NotifyWatchers();
    if (cancel) cancel();
  }

  // What the client has not been told.
  void Collect(std::vector<StreamEvent>& events) {
    const int64_t end = record().events();
    if (call.stream)
      for (; told < end; ++told) events.push_back(record().Event(told));
    if (!store) record().ForgetEvents();
  }

  const ApiContext& context;
  const int64_t prompt_tokens;
  const std::map<std::string, ToolName> namespaced;
  const Generation call;
  ChatChoice choice;
  ResponseStore* const store;  // null: the response is not kept
  const std::shared_ptr<StoredResponse> stored;
  int64_t message = -1;  // the message of the last item
  int64_t told = 0;      // events
  std::function<void()> cancel;
  std::optional<ApiError> failed;
};

ResponsesAnswer::ResponsesAnswer(ResponsesCall call, const ApiContext& context)
    : state_(std::make_shared<State>(call, context)) {}
ResponsesAnswer::~ResponsesAnswer() = default;

void ResponsesAnswer::Started(std::function<void()> cancel) {
  State& s = *state_;
  s.cancel = std::move(cancel);
  if (!s.store || !s.record().head().background) return;
  s.stored->cancel = [weak = std::weak_ptr(state_)] {
    if (const auto state = weak.lock()) state->Cancel();
  };
  s.store->AddRunning(s.stored);
}

void ResponsesAnswer::Begin(std::vector<StreamEvent>& events) {
  state_->Collect(events);
}

void ResponsesAnswer::Push(int64_t index, const TokenEvent& event,
                           std::vector<StreamEvent>& events) {
  State& s = *state_;
  ROSE_CHECK_EQ(index, 0);
  if (!s.record().ended()) {
    s.record().Start();
    std::vector<ChoiceDelta> deltas;
    s.choice.Push(event, deltas);
    for (const ChoiceDelta& delta : deltas) s.Apply(delta);
    if (s.choice.ended()) s.End();
  }
  s.Collect(events);
  s.record().NotifyWatchers();
}

bool ResponsesAnswer::ended(int64_t) const {
  return done();
}

bool ResponsesAnswer::done() const {
  return state_->record().ended();
}

const std::optional<ApiError>& ResponsesAnswer::failed() const {
  return state_->failed;
}

void ResponsesAnswer::Finish(std::vector<StreamEvent>&) {}  // the last event says that it ended

std::string ResponsesAnswer::Body() const {
  return state_->record().Body();
}

int64_t ResponsesAnswer::prompt_tokens() const {
  return state_->prompt_tokens;
}

int64_t ResponsesAnswer::completion_tokens() const {
  return state_->choice.completion_tokens();
}

int64_t ResponsesAnswer::dropped_bytes() const {
  return state_->choice.dropped_bytes();
}

Prepared PrepareResponse(std::string_view body, const ApiContext& context, int64_t now) {
  auto parsed = ParseResponsesRequest(body, context, now);
  if (auto* error = std::get_if<ApiError>(&parsed)) return std::move(*error);
  ResponsesCall& call = std::get<ResponsesCall>(parsed);
  PreparedCall out{.model = call.model, .stream = call.stream, .requests = call.Requests()};
  out.detached = call.head.background;
  out.answer = std::make_unique<ResponsesAnswer>(std::move(call), context);
  return out;
}

}  // namespace rose
