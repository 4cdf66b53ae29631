#include "server/responses.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/json_writer.h"
#include "api/responses_request.h"
#include "server/event_stream.h"

namespace rose {
namespace {

constexpr size_t kBurstBytes = 128 << 10;  // of events written without a look at other work

struct Target {
  std::string id;
  std::string part;  // "input_items", "cancel", or nothing
};

Target TargetOf(const HttpRequest& request) {
  constexpr std::string_view kPrefix = "/v1/responses/";
  const std::string_view rest = std::string_view(request.path).substr(kPrefix.size());
  const size_t slash = rest.find('/');
  if (slash == rest.npos) return {std::string(rest), ""};
  return {std::string(rest.substr(0, slash)), std::string(rest.substr(slash + 1))};
}

// A parameter of the query, decoded; none is nullopt.
std::optional<std::string> Parameter(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (PercentDecode(pair.substr(0, equals)) != name) continue;
    return PercentDecode(pair.substr(std::min(equals + 1, pair.size())));
  }
  return std::nullopt;
}

// An integer parameter in a range, `absent` without one; else the error is sent.
std::optional<int64_t> IntegerParameter(const HttpRequest& request, std::string_view name,
                                        int64_t absent, int64_t low, int64_t high,
                                        std::optional<ApiError>& error) {
  const auto text = Parameter(request.query, name);
  if (!text) return absent;
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (code == std::errc() && end == text->data() + text->size() && value >= low && value <= high)
    return value;
  error = ApiError{.message = StrCat(name, " must be an integer between ", low, " and ", high, "."),
                   .param = std::string(name)};
  return std::nullopt;
}

// Sends the events of a response that is under way, as they come.
class Follower : public std::enable_shared_from_this<Follower> {
 public:
  Follower(std::shared_ptr<StoredResponse> response, std::shared_ptr<ResponseWriter> writer,
           int64_t next)
      : response_(std::move(response)), writer_(std::move(writer)), next_(next) {}

  void Start() {
    writer_->BeginStream(EventStreamHead());
    watcher_ = record().Watch([self = shared_from_this()] { self->Pump(); });
    writer_->OnDisconnect([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Leave();
    });
    Pump();
  }

 private:
  ResponseRecord& record() { return *response_->record; }

  // A long past is sent in pieces, so that the client can take them in between.
  void Pump() {
    if (over_) return;
    std::string text;
    while (next_ < record().events() && text.size() < kBurstBytes)
      text += JoinEvents({record().Event(next_++)});
    if (!text.empty()) writer_->Write(std::move(text));
    if (over_) return;
    if (next_ < record().events()) {
      writer_->Post([self = shared_from_this()] { self->Pump(); });
    } else if (record().ended()) {
      writer_->EndStream();
      Leave();
    }
  }
  void Leave() {
    over_ = true;
    const auto self = shared_from_this();  // the watcher may be the last to hold it
    record().Unwatch(watcher_);
  }

  const std::shared_ptr<StoredResponse> response_;
  const std::shared_ptr<ResponseWriter> writer_;
  int64_t next_;
  int64_t watcher_ = -1;
  bool over_ = false;
};

void Stream(std::shared_ptr<StoredResponse> response, const HttpRequest& request,
            std::shared_ptr<ResponseWriter> writer) {
  std::optional<ApiError> error;
  const auto after = IntegerParameter(request, "starting_after", -1, 0, INT64_MAX - 1, error);
  if (error) return writer->Send(ErrorResponse(*error));
  const ResponseRecord& record = *response->record;
  const int64_t next = *after + 1;  // may be one that has not come yet, or never will
  if (!record.ended())
    return std::make_shared<Follower>(std::move(response), std::move(writer), next)->Start();
  HttpResponse reply = EventStreamHead();
  for (int64_t i = next; i < record.events(); ++i) reply.body += JoinEvents({record.Event(i)});
  writer->Send(std::move(reply));
}

void SendInputItems(const StoredResponse& response, const HttpRequest& request,
                    ResponseWriter& writer) {
  std::optional<ApiError> error;
  const auto limit = IntegerParameter(request, "limit", 20, 1, 100, error);
  const std::string order = Parameter(request.query, "order").value_or("desc");
  if (order != "asc" && order != "desc" && !error)
    error = ApiError{.message = "order must be asc or desc.", .param = "order"};
  std::vector<const ResponseInputItem*> items;
  for (const ResponseInputItem& item : response.input) items.push_back(&item);
  if (order == "desc") std::reverse(items.begin(), items.end());
  if (const auto after = Parameter(request.query, "after"); after && !error) {
    const auto found = std::find_if(items.begin(), items.end(),
                                    [&](const auto* item) { return item->id == *after; });
    if (found == items.end())
      error =
          ApiError{.message = "after names no item of this response's input.", .param = "after"};
    else
      items.erase(items.begin(), found + 1);
  }
  if (error) return writer.Send(ErrorResponse(*error));
  const bool more = std::ssize(items) > *limit;
  if (more) items.resize(static_cast<size_t>(*limit));
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("object").String("list").Key("data").BeginArray();
  for (const ResponseInputItem* item : items) json.Raw(item->json);
  json.EndArray();
  json.Key("first_id").StringOrNull(items.empty() ? "" : std::string_view(items.front()->id));
  json.Key("last_id").StringOrNull(items.empty() ? "" : std::string_view(items.back()->id));
  json.Key("has_more").Bool(more).EndObject();
  writer.Send({.body = std::move(body)});
}

HttpResponse NoSuchPart(const HttpRequest& request) {
  return ErrorResponse(404, StrCat("There is nothing at '", request.path, "'."));
}

}  // namespace

void GetResponse(ResponseStore& store, const HttpRequest& request,
                 std::shared_ptr<ResponseWriter> writer) {
  const Target target = TargetOf(request);
  if (!target.part.empty() && target.part != "input_items")
    return writer->Send(NoSuchPart(request));
  auto response = store.Find(target.id);
  if (!response) return writer->Send(ErrorResponse(UnknownResponse(target.id)));
  if (!target.part.empty()) return SendInputItems(*response, request, *writer);
  if (Parameter(request.query, "stream") == "true")
    return Stream(std::move(response), request, std::move(writer));
  writer->Send({.body = response->record->Body()});
}

void CancelResponse(ResponseStore& store, const HttpRequest& request, ResponseWriter& writer) {
  const Target target = TargetOf(request);
  if (target.part != "cancel") return writer.Send(NoSuchPart(request));
  const auto response = store.Find(target.id);
  if (!response) return writer.Send(ErrorResponse(UnknownResponse(target.id)));
  const ResponseRecord& record = *response->record;
  if (!record.head().background)
    return writer.Send(ErrorResponse(
        ApiError{.message = "Cannot cancel a synchronous response.", .param = "response_id"}));
  if (const auto cancel = response->cancel) cancel();
  if (record.status() != ResponseStatus::kCancelled)
    return writer.Send(ErrorResponse(ApiError{
        .message = StrCat("Cannot cancel a response that is ", StatusName(record.status()), "."),
        .param = "response_id"}));
  writer.Send({.body = record.Body()});
}

void DeleteResponse(ResponseStore& store, const HttpRequest& request, ResponseWriter& writer) {
  const Target target = TargetOf(request);
  if (!target.part.empty()) return writer.Send(NoSuchPart(request));
  const auto response = store.Find(target.id);
  if (!response) return writer.Send(ErrorResponse(UnknownResponse(target.id)));
  store.Erase(target.id);
  if (const auto cancel = response->cancel) cancel();
  std::string body;
  JsonWriter json(body);
  json.BeginObject().Key("id").String(target.id).Key("object").String("response");
  json.Key("deleted").Bool(true).EndObject();
  writer.Send({.body = std::move(body)});
}

}  // namespace rose
