// Responses that can be asked for again, continued, cancelled: kept in memory, within bounds.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/responses_record.h"
#include "chat/chat_format.h"

namespace rose {

// One item of a request's input.
struct ResponseInputItem {
  std::string id;
  std::string json;  // the item as an object with id and status
};

struct StoredResponse {
  std::shared_ptr<ResponseRecord> record;
  // What was said before its output: responses that it continues, then its own input. Without
  // instructions, which hold for one response only.
  std::vector<ChatMessage> conversation;
  std::vector<ResponseInputItem> input;  // its own
  std::function<void()> cancel;          // of one in the background, until it has ended
};

// What the model wrote, as messages that it can be shown.
std::vector<ChatMessage> OutputMessages(const ResponseRecord& record);

struct ResponseStoreLimits {
  int64_t count = 10'000;  // responses that have ended; 0 = nothing is stored
  int64_t bytes = int64_t{256} << 20;
  int64_t idle_seconds = 24 * 3600;  // since one was last used
};

// Thread-safe. Those that have ended are forgotten, the longest unused first, when a limit is
// passed; those under way are kept, since the engine's queue bounds them.
class ResponseStore {
 public:
  // `now`: seconds that never go back; empty = the steady clock.
  explicit ResponseStore(const ResponseStoreLimits& limits, std::function<int64_t()> now = {});

  bool enabled() const { return limits_.count > 0; }
  void AddRunning(std::shared_ptr<StoredResponse> response);
  // It has ended and does not change any more; added by AddRunning or not. A running one that was
  // erased stays away.
  void AddEnded(std::shared_ptr<StoredResponse> response);

  // Null if it is not there. On the thread that drives the answers: others may not look into one
  // that is running.
  std::shared_ptr<StoredResponse> Find(std::string_view id);
  struct Ended {
    std::shared_ptr<const StoredResponse> response;  // null if it is not there or still running
    bool running = false;
  };
  Ended FindEnded(std::string_view id);
  // An item that some stored response put out: as JSON, and as a message.
  struct Item {
    std::string json;
    ChatMessage message;
  };
  std::optional<Item> FindItem(const std::string& item_id);
  // False if it is not there.
  bool Erase(std::string_view id);
  void Clear();

  int64_t count() const;  // all of them
  int64_t bytes() const;  // of those that have ended

 private:
  struct Entry {
    std::shared_ptr<StoredResponse> response;
    bool ended = false;
    int64_t bytes = 0;
    int64_t used = 0;                        // when, if it has ended
    std::list<std::string>::iterator place;  // in order_, if it has ended
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  Entry* Use(std::string_view id);
  void Remove(Entries::iterator entry);
  void Trim();

  const ResponseStoreLimits limits_;
  const std::function<int64_t()> now_;
  mutable std::mutex mutex_;  // guards all below
  Entries entries_;
  std::list<std::string> order_;  // ids of those that have ended, the last used first
  std::unordered_map<std::string, std::string> items_;  // output item -> response, of the ended
  int64_t bytes_ = 0;
};

}  // namespace rose
