// One response of the Responses API as it comes about (spec E.9, E.10): its items, and the events
// that say how they grew. The events are a log; the object is their sum.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/answer.h"
#include "api/chat_choice.h"
#include "api/chat_tools.h"
#include "api/json_writer.h"

namespace rose {

// What is known of a response before its first token.
struct ResponseHead {
  std::string id;  // "resp_..."
  std::string model;
  int64_t created = 0;  // Unix seconds
  bool background = false;
  // Members of the response object that repeat the request, as JSON without braces.
  std::string echo;
};

enum class ResponseStatus { kQueued, kInProgress, kCompleted, kIncomplete, kFailed, kCancelled };

std::string_view StatusName(ResponseStatus status);

// One message that the model wrote.
struct ResponseItem {
  enum class Kind { kReasoning, kMessage, kCall };
  Kind kind = Kind::kMessage;
  std::string id;                     // "rs_...", "msg_...", "fc_..."
  std::string text;                   // a call's arguments
  std::string call_id;                // of a call
  ToolName name;                      // of a call
  std::vector<std::string> logprobs;  // of a message: entries as JSON
  ResponseStatus status = ResponseStatus::kInProgress;
};

struct ResponseUsage {
  int64_t input_tokens = 0, cached_tokens = 0, output_tokens = 0, reasoning_tokens = 0;
};

// Not thread-safe. Once it has ended it does not change any more.
class ResponseRecord {
 public:
  explicit ResponseRecord(ResponseHead head);

  // ---- Growing. Each call appends its events to the log.

  void Start();  // queued -> in progress; nothing if it is under way
  // Opens an item of this id. One item is open at a time: the one before is closed first.
  void Open(ResponseItem::Kind kind, std::string id);
  void OpenCall(std::string id, std::string call_id, ToolName name);
  // More of the open item.
  void Say(std::string_view text, std::vector<std::string> logprobs = {});
  void Close(bool complete);
  // Ends it. An item that is still open is closed, as complete only if the response is.
  void End(ResponseStatus status, const ResponseUsage& usage, std::string failure = "");

  // ---- Events

  // The event of each sequence number below is `Event(n)`.
  int64_t events() const { return base_ + static_cast<int64_t>(log_.size()); }
  StreamEvent Event(int64_t sequence) const;
  // Events up to here are not asked for again.
  void ForgetEvents();

  // Calls `on_news` after each NotifyWatchers until Unwatch.
  int64_t Watch(std::function<void()> on_news);
  void Unwatch(int64_t watcher) { watchers_.erase(watcher); }
  void NotifyWatchers();

  // ---- State

  // The response object, and one item of it.
  std::string Body() const;
  std::string ItemJson(const ResponseItem& item) const;
  const ResponseHead& head() const { return head_; }
  ResponseStatus status() const { return status_; }
  bool ended() const { return status_ != ResponseStatus::kQueued && status_ != kRunning; }
  const std::vector<ResponseItem>& items() const { return items_; }
  int64_t bytes() const;  // about what it holds

 private:
  static constexpr ResponseStatus kRunning = ResponseStatus::kInProgress;
  enum class Type {
    kCreated,
    kQueued,
    kInProgress,
    kItemAdded,
    kPartAdded,
    kDelta,
    kTextDone,
    kPartDone,
    kItemDone,
    kEnded,
  };
  // Of a delta: which part of the item's text and of its logprobs it brought.
  struct Entry {
    Type type;
    uint32_t item = 0;
    uint32_t begin = 0, end = 0, logprobs_begin = 0, logprobs_end = 0;
  };

  void Log(Type type);
  std::string_view EventName(const Entry& entry) const;
  void WriteEvent(JsonWriter& json, const Entry& entry) const;
  // The object as it was when nothing had been said, or as it is.
  void WriteObject(JsonWriter& json, ResponseStatus status, bool with_output) const;
  void WriteItem(JsonWriter& json, const ResponseItem& item, bool blank) const;

  const ResponseHead head_;
  ResponseStatus status_;
  std::vector<ResponseItem> items_;
  bool open_ = false;  // the last item
  ResponseUsage usage_;
  std::string failure_;

  std::vector<Entry> log_;
  int64_t base_ = 0;  // sequence number of log_[0]

  std::map<int64_t, std::function<void()>> watchers_;
  int64_t next_watcher_ = 0;
};

}  // namespace rose
