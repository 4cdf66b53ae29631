#include "api/responses_store.h"

#include <chrono>
#include <utility>

namespace rose {
namespace {

int64_t SteadySeconds() {
  using std::chrono::seconds;
  return std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

ChatMessage MessageOf(const ResponseItem& item) {
  ChatMessage message{.role = Role::kAssistant, .has_content = false};
  switch (item.kind) {
    case ResponseItem::Kind::kReasoning:
      message.reasoning = item.text;
      break;
    case ResponseItem::Kind::kMessage:
      message.content = item.text;
      message.has_content = true;
      break;
    case ResponseItem::Kind::kCall:
      message.tool_calls.push_back({item.call_id, FlatName(item.name), item.text});
      break;
  }
  return message;
}

int64_t BytesOf(const ChatMessage& message) {
  size_t bytes = sizeof(message) + message.content.size() + message.reasoning.size();
  for (const ToolCall& call : message.tool_calls)
    bytes += sizeof(call) + call.id.size() + call.name.size() + call.arguments.size();
  return static_cast<int64_t>(bytes);
}

int64_t BytesOf(const StoredResponse& response) {
  constexpr int64_t kOverhead = 1024;  // map nodes, small strings
  int64_t bytes = kOverhead + response.record->bytes();
  for (const ChatMessage& message : response.conversation) bytes += BytesOf(message);
  for (const ResponseInputItem& item : response.input)
    bytes += static_cast<int64_t>(sizeof(item) + item.id.size() + item.json.size());
  return bytes;
}

}  // namespace

std::vector<ChatMessage> OutputMessages(const ResponseRecord& record) {
  std::vector<ChatMessage> out;
  for (const ResponseItem& item : record.items()) out.push_back(MessageOf(item));
  return out;
}

ResponseStore::ResponseStore(const ResponseStoreLimits& limits, std::function<int64_t()> now)
    : limits_(limits), now_(now ? std::move(now) : SteadySeconds) {}

void ResponseStore::AddRunning(std::shared_ptr<StoredResponse> response) {
  const std::lock_guard lock(mutex_);
  const std::string id = response->record->head().id;
  entries_[id] = {.response = std::move(response)};
}

void ResponseStore::AddEnded(std::shared_ptr<StoredResponse> response) {
  const std::lock_guard lock(mutex_);
  const ResponseRecord& record = *response->record;
  const std::string& id = record.head().id;
  const bool was_running = record.head().background;
  if (was_running && !entries_.contains(id)) return;
  Entry& entry = entries_[id];
  entry.bytes = BytesOf(*response);
  entry.response = std::move(response);
  entry.ended = true;
  entry.used = now_();
  entry.place = order_.insert(order_.begin(), id);
  bytes_ += entry.bytes;
  for (const ResponseItem& item : record.items()) items_[item.id] = id;
  Trim();
}

std::shared_ptr<StoredResponse> ResponseStore::Find(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = Use(id);
  return entry ? entry->response : nullptr;
}

ResponseStore::Ended ResponseStore::FindEnded(std::string_view id) {
  const std::lock_guard lock(mutex_);
  const Entry* entry = Use(id);
  if (!entry) return {};
  return entry->ended ? Ended{.response = entry->response} : Ended{.running = true};
}

std::optional<ResponseStore::Item> ResponseStore::FindItem(const std::string& item_id) {
  const std::lock_guard lock(mutex_);
  const auto found = items_.find(item_id);
  if (found == items_.end()) return std::nullopt;
  const std::string id = found->second;  // a copy, since forgetting may take the original
  const Entry* entry = Use(id);
  if (!entry) return std::nullopt;
  const ResponseRecord& record = *entry->response->record;
  for (const ResponseItem& item : record.items())
    if (item.id == item_id) return Item{record.ItemJson(item), MessageOf(item)};
  return std::nullopt;
}

bool ResponseStore::Erase(std::string_view id) {
  const std::lock_guard lock(mutex_);
  Trim();
  const auto found = entries_.find(id);
  if (found == entries_.end()) return false;
  Remove(found);
  return true;
}

void ResponseStore::Clear() {
  Entries dropped;  // released without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(entries_);
  order_.clear();
  items_.clear();
  bytes_ = 0;
}

int64_t ResponseStore::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

int64_t ResponseStore::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

// The entry, or null; it counts as used.
ResponseStore::Entry* ResponseStore::Use(std::string_view id) {
  Trim();
  const auto found = entries_.find(id);
  if (found == entries_.end()) return nullptr;
  Entry& entry = found->second;
  if (entry.ended) {
    entry.used = now_();
    order_.splice(order_.begin(), order_, entry.place);
  }
  return &entry;
}

void ResponseStore::Remove(Entries::iterator entry) {
  if (entry->second.ended) {
    for (const ResponseItem& item : entry->second.response->record->items()) items_.erase(item.id);
    order_.erase(entry->second.place);
    bytes_ -= entry->second.bytes;
  }
  entries_.erase(entry);
}

// Forgets what is beyond the limits.
void ResponseStore::Trim() {
  const int64_t oldest = now_() - limits_.idle_seconds;
  while (!order_.empty()) {
    const auto last = entries_.find(order_.back());
    if (static_cast<int64_t>(order_.size()) <= limits_.count && bytes_ <= limits_.bytes &&
        last->second.used >= oldest)
      return;
    Remove(last);
  }
}

}  // namespace rose
