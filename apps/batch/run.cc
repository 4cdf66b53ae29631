#include "batch/run.h"

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "api/chat_completions.h"
#include "api/completions.h"
#include "api/json_writer.h"
#include "api/messages.h"
#include "api/responses_answer.h"

namespace rose {
namespace {

struct Endpoint {
  std::string_view url;
  Prepared (*prepare)(std::string_view body, const ApiContext& context, int64_t now);
  std::string (*error_body)(const ApiError&);
};

constexpr Endpoint kEndpoints[] = {
    {"/v1/chat/completions", &PrepareChatCompletion, &ErrorBody},
    {"/v1/completions", &PrepareCompletion, &ErrorBody},
    {"/v1/responses", &PrepareResponse, &ErrorBody},
    {"/v1/messages", &PrepareMessages, &MessagesErrorBody},
};

const Endpoint* FindEndpoint(std::string_view url) {
  for (const Endpoint& endpoint : kEndpoints)
    if (endpoint.url == url) return &endpoint;
  return nullptr;
}

std::string EndpointNames() {
  std::string names;
  for (const Endpoint& endpoint : kEndpoints)
    names.append(names.empty() ? "" : ", ").append(endpoint.url);
  return names;
}

}  // namespace

Status BatchRun::Run(const std::atomic<bool>& stop,
                     const std::function<void(int64_t done, int64_t total)>& progress) {
  const auto done = [&] { return output_.found() + counts_.answered + counts_.failed; };
  progress(done(), input_.size());
  bool more = true;
  Status status;
  while (status.ok()) {
    while (status.ok() && more && running_ < limit_ && !stop) {
      auto request = input_.Next();
      if (!request.ok()) {
        status = request.status();
      } else if (!request->has_value()) {
        more = false;
      } else if (!output_.Answered((*request)->custom_id)) {
        status = Start(std::move(**request));
        progress(done(), input_.size());
      }
    }
    if (!status.ok() || running_ == 0) break;
    for (const News& news : Wait()) {
      if (status.ok()) status = Handle(news);
      progress(done(), input_.size());
    }
  }
  for (const auto& job : jobs_) Cancel(*job);
  return status;
}

std::vector<BatchRun::News> BatchRun::Wait() {
  std::unique_lock lock(inbox_->mutex);
  inbox_->changed.wait(lock, [this] { return !inbox_->news.empty(); });
  return std::exchange(inbox_->news, {});
}

Status BatchRun::Start(BatchRequest request) {
  const Endpoint* endpoint = FindEndpoint(request.url);
  if (endpoint == nullptr) {
    return WriteError(request.custom_id, "invalid_url",
                      StrCat("url is \"", request.url, "\"; a batch takes ", EndpointNames(), "."));
  }
  if (request.method != "POST")
    return WriteError(request.custom_id, "invalid_method", "method must be \"POST\".");
  auto job = std::make_shared<Job>();
  job->custom_id = std::move(request.custom_id);
  job->request_id = context_.NewId("");
  job->error_body = endpoint->error_body;
  auto prepared =
      endpoint->prepare(request.body, context_, static_cast<int64_t>(std::time(nullptr)));
  if (const auto* error = std::get_if<ApiError>(&prepared))
    return WriteResponse(*job, error->http_status, endpoint->error_body(*error));
  auto& call = std::get<PreparedCall>(prepared);
  if (call.stream || call.detached) {
    const std::string param = call.stream ? "stream" : "background";
    const ApiError error{.message = param + " must be false in a batch.", .param = param};
    return WriteResponse(*job, error.http_status, endpoint->error_body(error));
  }
  return Submit(std::move(call), job);
}

Status BatchRun::Submit(PreparedCall call, const std::shared_ptr<Job>& job) {
  job->answer = std::move(call.answer);
  jobs_.insert(job);
  for (size_t index = 0; index < call.requests.size(); ++index) {
    Request request = std::move(call.requests[index]);
    request.on_event = [inbox = inbox_, job,
                        index = static_cast<int64_t>(index)](const TokenEvent& event) {
      const std::lock_guard lock(inbox->mutex);
      inbox->news.push_back({job, index, event});
      inbox->changed.notify_one();
    };
    const auto id = engine_.Submit(std::move(request));
    if (!id.ok()) {
      // The request's own fault is its answer; anything else would meet the others too.
      if (id.status().code() != StatusCode::kInvalidArgument) return id.status();
      const ApiError error = ErrorFromStatus(id.status());
      Cancel(*job);
      return WriteResponse(*job, error.http_status, job->error_body(error));
    }
    job->ids.push_back(*id);
    ++job->running;
    ++running_;
  }
  return Status();
}

Status BatchRun::Handle(const News& news) {
  Job& job = *news.job;
  if (news.event.finish != FinishReason::kNone) {
    --job.running;
    --running_;
  }
  if (job.written) return Status();
  if (news.event.finish == FinishReason::kError && !engine_.healthy())
    return Status(StatusCode::kInternal, "the engine has failed: " + news.event.error);
  std::vector<StreamEvent> events;
  job.answer->Push(news.index, news.event, events);
  if (job.answer->ended(news.index) && news.event.finish == FinishReason::kNone)
    engine_.Cancel(job.ids[static_cast<size_t>(news.index)]);
  return job.answer->done() ? Finish(job) : Status();
}

Status BatchRun::Finish(Job& job) {
  if (const auto& error = job.answer->failed()) {
    Cancel(job);
    return WriteResponse(job, error->http_status, job.error_body(*error));
  }
  return WriteResponse(job, 200, job.answer->Body());
}

Status BatchRun::WriteResponse(Job& job, int status, const std::string& body) {
  job.written = true;
  std::erase_if(jobs_, [&job](const auto& other) { return other.get() == &job; });
  ++(status == 200 ? counts_.answered : counts_.failed);
  std::string line;
  JsonWriter json(line);
  json.BeginObject().Key("id").String(context_.NewId("batch_req_"));
  json.Key("custom_id").String(job.custom_id);
  json.Key("response").BeginObject().Key("status_code").Integer(status);
  json.Key("request_id").String(job.request_id).Key("body").Raw(body).EndObject();
  json.Key("error").Null().EndObject();
  return output_.Write(line);
}

Status BatchRun::WriteError(const std::string& custom_id, const char* code,
                            const std::string& message) {
  ++counts_.failed;
  std::string line;
  JsonWriter json(line);
  json.BeginObject().Key("id").String(context_.NewId("batch_req_"));
  json.Key("custom_id").String(custom_id).Key("response").Null();
  json.Key("error").BeginObject().Key("code").String(code).Key("message").String(message);
  json.EndObject().EndObject();
  return output_.Write(line);
}

void BatchRun::Cancel(const Job& job) {
  for (const RequestId id : job.ids) engine_.Cancel(id);
}

}  // namespace rose
