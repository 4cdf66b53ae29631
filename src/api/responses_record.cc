#include "api/responses_record.h"

#include <utility>

#include "base/check.h"

namespace rose {
namespace {

using Kind = ResponseItem::Kind;

// The text part of an item that is no call, empty or whole.
void WritePart(JsonWriter& json, const ResponseItem& item, bool blank) {
  const bool reasoning = item.kind == Kind::kReasoning;
  json.BeginObject().Key("type").String(reasoning ? "reasoning_text" : "output_text");
  json.Key("text").String(blank ? "" : std::string_view(item.text));
  if (!reasoning) {
    json.Key("annotations").BeginArray().EndArray();
    json.Key("logprobs").BeginArray();
    if (!blank)
      for (const std::string& entry : item.logprobs) json.Raw(entry);
    json.EndArray();
  }
  json.EndObject();
}

void WriteUsage(JsonWriter& json, const ResponseUsage& usage) {
  json.BeginObject().Key("input_tokens").Integer(usage.input_tokens);
  json.Key("input_tokens_details").BeginObject();
  json.Key("cached_tokens").Integer(usage.cached_tokens);
  // What OpenAI charges extra. Its types declare the number as always there.
  json.Key("cache_write_tokens").Integer(0).EndObject();
  json.Key("output_tokens").Integer(usage.output_tokens);
  json.Key("output_tokens_details").BeginObject();
  json.Key("reasoning_tokens").Integer(usage.reasoning_tokens).EndObject();
  json.Key("total_tokens").Integer(usage.input_tokens + usage.output_tokens).EndObject();
}

}  // namespace

std::string_view StatusName(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::kQueued:
      return "queued";
    case ResponseStatus::kInProgress:
      return "in_progress";
    case ResponseStatus::kCompleted:
      return "completed";
    case ResponseStatus::kIncomplete:
      return "incomplete";
    case ResponseStatus::kFailed:
      return "failed";
    case ResponseStatus::kCancelled:
      return "cancelled";
  }
  ROSE_CHECK(false, "status ", static_cast<int>(status));
}

ResponseRecord::ResponseRecord(ResponseHead head)
    : head_(std::move(head)), status_(head_.background ? ResponseStatus::kQueued : kRunning) {
  Log(Type::kCreated);
  Log(head_.background ? Type::kQueued : Type::kInProgress);
}

void ResponseRecord::Log(Type type) {
  const size_t item = items_.empty() ? 0 : items_.size() - 1;
  log_.push_back({.type = type, .item = static_cast<uint32_t>(item)});
}

void ResponseRecord::Start() {
  if (status_ != ResponseStatus::kQueued) return;
  status_ = kRunning;
  Log(Type::kInProgress);
}

void ResponseRecord::Open(Kind kind, std::string id) {
  Close(/*complete=*/true);
  items_.push_back({.kind = kind, .id = std::move(id)});
  open_ = true;
  Log(Type::kItemAdded);
  if (kind != Kind::kCall) Log(Type::kPartAdded);
}

void ResponseRecord::OpenCall(std::string id, std::string call_id, ToolName name) {
  Close(/*complete=*/true);
  items_.push_back({.kind = Kind::kCall,
                    .id = std::move(id),
                    .call_id = std::move(call_id),
                    .name = std::move(name)});
  open_ = true;
  Log(Type::kItemAdded);
}

void ResponseRecord::Say(std::string_view text, std::vector<std::string> logprobs) {
  ROSE_CHECK(open_, "no item is open");
  ResponseItem& item = items_.back();
  Entry entry{.type = Type::kDelta, .item = static_cast<uint32_t>(items_.size() - 1)};
  entry.begin = static_cast<uint32_t>(item.text.size());
  entry.logprobs_begin = static_cast<uint32_t>(item.logprobs.size());
  item.text += text;
  std::move(logprobs.begin(), logprobs.end(), std::back_inserter(item.logprobs));
  entry.end = static_cast<uint32_t>(item.text.size());
  entry.logprobs_end = static_cast<uint32_t>(item.logprobs.size());
  log_.push_back(entry);
}

void ResponseRecord::Close(bool complete) {
  if (!std::exchange(open_, false)) return;
  ResponseItem& item = items_.back();
  item.status = complete ? ResponseStatus::kCompleted : ResponseStatus::kIncomplete;
  Log(Type::kTextDone);
  if (item.kind != Kind::kCall) Log(Type::kPartDone);
  Log(Type::kItemDone);
}

void ResponseRecord::End(ResponseStatus status, const ResponseUsage& usage, std::string failure) {
  ROSE_CHECK(!ended(), "a response ends once");
  Close(/*complete=*/status == ResponseStatus::kCompleted);
  status_ = status;
  usage_ = usage;
  failure_ = std::move(failure);
  Log(Type::kEnded);
}

void ResponseRecord::ForgetEvents() {
  base_ = events();
  log_.clear();
}

int64_t ResponseRecord::Watch(std::function<void()> on_news) {
  watchers_.emplace(next_watcher_, std::move(on_news));
  return next_watcher_++;
}

void ResponseRecord::NotifyWatchers() {
  // A watcher may leave while it is told, and take others with it.
  std::vector<int64_t> watchers;
  for (const auto& [watcher, _] : watchers_) watchers.push_back(watcher);
  for (const int64_t watcher : watchers) {
    const auto found = watchers_.find(watcher);
    if (found == watchers_.end()) continue;
    const std::function<void()> on_news = found->second;
    on_news();
  }
}

StreamEvent ResponseRecord::Event(int64_t sequence) const {
  ROSE_CHECK(sequence >= base_ && sequence < events(), "event ", sequence, " of ", events());
  const Entry& entry = log_[static_cast<size_t>(sequence - base_)];
  StreamEvent event{.name = std::string(EventName(entry))};
  JsonWriter json(event.data);
  json.BeginObject().Key("type").String(event.name).Key("sequence_number").Integer(sequence);
  WriteEvent(json, entry);
  json.EndObject();
  return event;
}

std::string_view ResponseRecord::EventName(const Entry& entry) const {
  const auto by_kind = [&](std::string_view reasoning, std::string_view message,
                           std::string_view call) {
    const Kind kind = items_[entry.item].kind;
    return kind == Kind::kReasoning ? reasoning : kind == Kind::kMessage ? message : call;
  };
  switch (entry.type) {
    case Type::kCreated:
      return "response.created";
    case Type::kQueued:
      return "response.queued";
    case Type::kInProgress:
      return "response.in_progress";
    case Type::kItemAdded:
      return "response.output_item.added";
    case Type::kPartAdded:
      return "response.content_part.added";
    case Type::kDelta:
      return by_kind("response.reasoning_text.delta", "response.output_text.delta",
                     "response.function_call_arguments.delta");
    case Type::kTextDone:
      return by_kind("response.reasoning_text.done", "response.output_text.done",
                     "response.function_call_arguments.done");
    case Type::kPartDone:
      return "response.content_part.done";
    case Type::kItemDone:
      return "response.output_item.done";
    case Type::kEnded:
      if (status_ == ResponseStatus::kCompleted) return "response.completed";
      // There is no event for a cancelled one that clients know; its status says what happened.
      return status_ == ResponseStatus::kIncomplete ? "response.incomplete" : "response.failed";
  }
  ROSE_CHECK(false, "event type ", static_cast<int>(entry.type));
}

void ResponseRecord::WriteEvent(JsonWriter& json, const Entry& entry) const {
  const bool added = entry.type == Type::kItemAdded || entry.type == Type::kPartAdded;
  switch (entry.type) {
    case Type::kCreated:
    case Type::kQueued:
      return WriteObject(json.Key("response"),
                         head_.background ? ResponseStatus::kQueued : kRunning, false);
    case Type::kInProgress:
      return WriteObject(json.Key("response"), kRunning, false);
    case Type::kEnded:
      return WriteObject(json.Key("response"), status_, true);
    case Type::kItemAdded:
    case Type::kItemDone:
      json.Key("output_index").Integer(entry.item);
      return WriteItem(json.Key("item"), items_[entry.item], added);
    case Type::kPartAdded:
    case Type::kPartDone:
    case Type::kDelta:
    case Type::kTextDone:
      break;
  }
  const ResponseItem& item = items_[entry.item];
  json.Key("item_id").String(item.id).Key("output_index").Integer(entry.item);
  if (item.kind != Kind::kCall) json.Key("content_index").Integer(0);
  if (entry.type == Type::kPartAdded || entry.type == Type::kPartDone)
    return WritePart(json.Key("part"), item, added);
  const bool delta = entry.type == Type::kDelta;
  std::string_view text = item.text;
  if (delta) text = text.substr(entry.begin, entry.end - entry.begin);
  if (item.kind == Kind::kCall && !delta) json.Key("name").String(item.name.name);
  json.Key(delta ? "delta" : item.kind == Kind::kCall ? "arguments" : "text").String(text);
  if (item.kind != Kind::kMessage) return;
  const size_t begin = delta ? entry.logprobs_begin : 0;
  const size_t end = delta ? entry.logprobs_end : item.logprobs.size();
  json.Key("logprobs").BeginArray();
  for (size_t i = begin; i < end; ++i) json.Raw(item.logprobs[i]);
  json.EndArray();
}

void ResponseRecord::WriteItem(JsonWriter& json, const ResponseItem& item, bool blank) const {
  json.BeginObject().Key("id").String(item.id);
  switch (item.kind) {
    case Kind::kReasoning:
      json.Key("type").String("reasoning").Key("summary").BeginArray().EndArray();
      break;
    case Kind::kMessage:
      json.Key("type").String("message").Key("role").String("assistant");
      break;
    case Kind::kCall:
      json.Key("type").String("function_call").Key("call_id").String(item.call_id);
      json.Key("name").String(item.name.name);
      if (!item.name.space.empty()) json.Key("namespace").String(item.name.space);
      json.Key("arguments").String(blank ? "" : std::string_view(item.text));
      break;
  }
  if (item.kind != Kind::kCall) {
    json.Key("content").BeginArray();
    if (!blank) WritePart(json, item, false);
    json.EndArray();
  }
  if (item.kind == Kind::kReasoning) json.Key("encrypted_content").Null();
  json.Key("status").String(StatusName(blank ? kRunning : item.status)).EndObject();
}

void ResponseRecord::WriteObject(JsonWriter& json, ResponseStatus status, bool with_output) const {
  json.BeginObject().Key("id").String(head_.id).Key("object").String("response");
  json.Key("created_at").Integer(head_.created).Key("status").String(StatusName(status));
  json.Key("background").Bool(head_.background);
  json.Key("error");
  if (status == ResponseStatus::kFailed) {
    json.BeginObject().Key("code").String("server_error");
    json.Key("message").String(failure_).EndObject();
  } else {
    json.Null();
  }
  json.Key("incomplete_details");
  if (status == ResponseStatus::kIncomplete) {
    json.BeginObject().Key("reason").String("max_output_tokens").EndObject();
  } else {
    json.Null();
  }
  json.Key("model").String(head_.model);
  if (!head_.echo.empty()) json.Raw(head_.echo);
  json.Key("output").BeginArray();
  if (with_output)
    for (const ResponseItem& item : items_) WriteItem(json, item, false);
  json.EndArray().Key("usage");
  if (with_output && ended()) {
    WriteUsage(json, usage_);
  } else {
    json.Null();
  }
  json.EndObject();
}

std::string ResponseRecord::Body() const {
  std::string out;
  JsonWriter json(out);
  WriteObject(json, status_, /*with_output=*/true);
  return out;
}

std::string ResponseRecord::ItemJson(const ResponseItem& item) const {
  std::string out;
  JsonWriter json(out);
  WriteItem(json, item, /*blank=*/false);
  return out;
}

int64_t ResponseRecord::bytes() const {
  size_t bytes = sizeof(*this) + head_.echo.size() + log_.size() * sizeof(Entry);
  for (const ResponseItem& item : items_) {
    bytes += sizeof(item) + item.text.size();
    for (const std::string& entry : item.logprobs) bytes += sizeof(entry) + entry.size();
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace rose
