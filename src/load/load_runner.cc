#include "load/load_runner.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "base/check.h"
#include "load/answer_events.h"
#include "load/reply_reader.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

// One connection and the request on it, if any.
struct Connection {
  explicit Connection(int the_fd) : fd(the_fd) {}
  ~Connection() { ::close(fd); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const int fd;
  int64_t request = -1;  // index; -1 = idle
  std::string out;       // still to send
  bool is_reused = false;
  bool has_news = false;  // bytes of the answer came
  bool is_dropped = false;
  ReplyReader reader;
  AnswerEvents answer;
};

class Runner {
 public:
  Runner(const LoadTarget& target, const LoadPlan& plan, const std::vector<LoadRequest>& requests)
      : target_(target),
        plan_(plan),
        requests_(requests),
        records_(requests.size()),
        poll_(::epoll_create1(EPOLL_CLOEXEC)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
        start_(Clock::now()) {
    ROSE_CHECK(poll_ >= 0 && timer_ >= 0, std::strerror(errno));
    Watch(timer_, EPOLLIN, nullptr, EPOLL_CTL_ADD);
  }
  ~Runner() {
    open_.clear();
    ::close(timer_);
    ::close(poll_);
  }

  std::vector<LoadRecord> Run(const std::function<bool(int64_t)>& on_progress) {
    const auto all = static_cast<int64_t>(requests_.size());
    while (done_ < all) {
      SendDue();
      ArmTimer();
      Wait();
      ExpireOld();
      if (!on_progress(done_)) {
        Abandon();
        break;
      }
    }
    records_.resize(next_);
    return std::move(records_);
  }

 private:
  double Now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  bool is_open_loop() const { return plan_.concurrency == 0; }

  void Watch(int fd, uint32_t events, Connection* connection, int how) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = connection;
    ::epoll_ctl(poll_, how, fd, &event);
  }

  // Sends what should run by now.
  void SendDue() {
    while (next_ < static_cast<int64_t>(requests_.size())) {
      const int64_t most = is_open_loop() ? plan_.max_open : plan_.concurrency;
      if (running_ >= most) return;
      if (is_open_loop() && plan_.arrivals[next_] > Now()) return;
      Send(next_++);
    }
  }

  // The next arrival, but at least ten wake-ups a second for time-outs and progress.
  void ArmTimer() {
    double seconds = 0.1;
    const bool waits = is_open_loop() && running_ < plan_.max_open &&
                       next_ < static_cast<int64_t>(requests_.size());
    if (waits) seconds = std::clamp(plan_.arrivals[next_] - Now(), 1e-6, 0.1);
    itimerspec when{};
    when.it_value.tv_nsec = static_cast<int64_t>(seconds * 1e9);
    ::timerfd_settime(timer_, 0, &when, nullptr);
  }

  void Send(int64_t index) {
    ++running_;
    LoadRecord& record = records_[index];
    if (is_open_loop()) record.due_s = plan_.arrivals[index];
    record.sent_s = Now();
    Connection* connection = Take();
    if (connection == nullptr) {
      return Finish(index, StrCat("cannot connect: ", std::strerror(errno)));
    }
    Begin(*connection, index);
  }

  // An idle connection, or one that is being made; null and errno if that fails.
  Connection* Take() {
    if (!idle_.empty()) {
      Connection* connection = idle_.back();
      idle_.pop_back();
      connection->is_reused = true;
      return connection;
    }
    const int fd =
        ::socket(target_.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return nullptr;
    const int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&target_.address), target_.address_bytes) !=
            0 &&
        errno != EINPROGRESS) {
      const int error = errno;
      ::close(fd);
      errno = error;
      return nullptr;
    }
    open_.push_back(std::make_unique<Connection>(fd));
    Watch(fd, EPOLLIN, open_.back().get(), EPOLL_CTL_ADD);
    return open_.back().get();
  }

  void Begin(Connection& connection, int64_t index) {
    connection.request = index;
    connection.reader = ReplyReader();
    connection.answer = AnswerEvents();
    connection.has_news = false;
    connection.out = target_.Request("POST", requests_[index].path, requests_[index].body);
    Watch(connection.fd, EPOLLIN | EPOLLOUT, &connection, EPOLL_CTL_MOD);
  }

  void Wait() {
    epoll_event events[256];
    const int ready = ::epoll_wait(poll_, events, 256, -1);
    for (int i = 0; i < ready; ++i) {
      auto* connection = static_cast<Connection*>(events[i].data.ptr);
      if (connection == nullptr) {
        uint64_t times = 0;
        [[maybe_unused]] const ssize_t size = ::read(timer_, &times, sizeof times);
        continue;
      }
      if (!connection->is_dropped && (events[i].events & EPOLLOUT)) Write(*connection);
      if (!connection->is_dropped && (events[i].events & ~EPOLLOUT)) Read(*connection);
    }
    dropped_.clear();
  }

  void Write(Connection& connection) {
    while (!connection.out.empty()) {
      const ssize_t sent =
          ::send(connection.fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (sent < 0) return Broken(connection, StrCat("cannot send: ", std::strerror(errno)));
      connection.out.erase(0, static_cast<size_t>(sent));
    }
    Watch(connection.fd, EPOLLIN, &connection, EPOLL_CTL_MOD);
  }

  void Read(Connection& connection) {
    char bytes[64 << 10];
    const ssize_t size = ::recv(connection.fd, bytes, sizeof bytes, 0);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (connection.request < 0) return Drop(connection);  // idle: the server closed it
    if (size < 0) return Broken(connection, StrCat("cannot receive: ", std::strerror(errno)));
    if (size == 0) {
      if (connection.reader.Close()) return Complete(connection);
      return Broken(connection, "the server closed the connection before the answer's end");
    }
    connection.has_news = true;
    const double now = Now();
    LoadRecord& record = records_[connection.request];
    const bool is_http =
        connection.reader.Push({bytes, static_cast<size_t>(size)}, [&](std::string_view data) {
          if (connection.answer.Push(data)) record.token_s.push_back(now);
        });
    if (!is_http) return Broken(connection, "the reply is no HTTP");
    record.status = connection.reader.status();
    if (connection.reader.done()) Complete(connection);
  }

  void Complete(Connection& connection) {
    const int64_t index = connection.request;
    LoadRecord& record = records_[index];
    const AnswerEvents& answer = connection.answer;
    std::string error;
    if (connection.reader.status() != 200) {
      error = StrCat("HTTP ", connection.reader.status(), ": ",
                     connection.reader.body().substr(0, 200));
    } else if (!answer.error().empty()) {
      error = answer.error();
    } else if (!answer.is_complete()) {
      error = "the stream ended without [DONE]";
    }
    record.has_retry_after = connection.reader.has_retry_after();
    record.prompt_tokens = answer.prompt_tokens();
    record.completion_tokens = answer.completion_tokens() > 0
                                   ? answer.completion_tokens()
                                   : static_cast<int64_t>(record.token_s.size());
    connection.request = -1;
    if (connection.reader.keeps_alive()) {
      idle_.push_back(&connection);
    } else {
      Drop(connection);
    }
    Finish(index, std::move(error));
  }

  // A server may close a connection that was kept alive just as it is used again: that is no fault
  // of the request, which is sent once more.
  void Broken(Connection& connection, std::string error) {
    const int64_t index = connection.request;
    const bool again = connection.is_reused && !connection.has_news;
    Drop(connection);
    if (again) {
      --running_;
      // Only fresh connections: the others may be as old.
      while (!idle_.empty()) Drop(*idle_.back());
      return Send(index);
    }
    Finish(index, std::move(error));
  }

  void Drop(Connection& connection) {
    std::erase(idle_, &connection);
    const auto at = std::find_if(open_.begin(), open_.end(),
                                 [&](const auto& one) { return one.get() == &connection; });
    // Kept until the events of this wake-up are through: one of them may name it.
    dropped_.push_back(std::move(*at));
    open_.erase(at);
    Watch(connection.fd, 0, nullptr, EPOLL_CTL_DEL);
    connection.is_dropped = true;
    connection.request = -1;
  }

  void Finish(int64_t index, std::string error) {
    --running_;
    ++done_;
    records_[index].done_s = Now();
    records_[index].error = std::move(error);
  }

  void ExpireOld() {
    const double now = Now();
    for (size_t i = open_.size(); i-- > 0;) {
      Connection& connection = *open_[i];
      if (connection.request < 0) continue;
      if (now - records_[connection.request].sent_s < plan_.timeout_s) continue;
      const int64_t index = connection.request;
      Drop(connection);
      Finish(index, StrCat("no answer within ", plan_.timeout_s, " s"));
    }
    dropped_.clear();
  }

  void Abandon() {
    for (const auto& connection : open_) {
      if (connection->request >= 0) Finish(connection->request, "stopped");
    }
  }

  const LoadTarget& target_;
  const LoadPlan& plan_;
  const std::vector<LoadRequest>& requests_;
  std::vector<LoadRecord> records_;
  const int poll_, timer_;
  const Clock::time_point start_;
  int64_t next_ = 0;  // the first request that was not sent
  int64_t running_ = 0;
  int64_t done_ = 0;
  std::vector<std::unique_ptr<Connection>> open_, dropped_;
  std::vector<Connection*> idle_;  // of open_, without a request
};

}  // namespace

std::vector<double> PoissonArrivals(int64_t n, double rate, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> times;
  double now = 0;
  for (int64_t i = 0; i < n; ++i) {
    // By hand: the library's distribution may differ from one compiler to the next.
    const double u = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    now += -std::log(u) / rate;
    times.push_back(now);
  }
  return times;
}

std::vector<LoadRecord> RunLoad(const LoadTarget& target, const LoadPlan& plan,
                                const std::vector<LoadRequest>& requests,
                                const std::function<bool(int64_t)>& on_progress) {
  ROSE_CHECK(plan.concurrency > 0 || plan.arrivals.size() == requests.size(),
             "an open loop needs a time for every request");
  return Runner(target, plan, requests).Run(on_progress);
}

}  // namespace rose
