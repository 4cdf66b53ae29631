#include "signals.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <utility>

#include "base/check.h"

namespace rose {

SignalWatcher::SignalWatcher(std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  ROSE_CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, nullptr), 0);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  stop_ = eventfd(0, EFD_CLOEXEC);
  ROSE_CHECK(signals_ >= 0 && stop_ >= 0, "no file descriptors left");
  thread_ = std::thread([this] { Run(); });
}

SignalWatcher::~SignalWatcher() {
  eventfd_write(stop_, 1);
  thread_.join();
  close(signals_);
  close(stop_);
}

void SignalWatcher::Run() {
  for (int count = 1;;) {
    std::array<pollfd, 2> waited{pollfd{signals_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
    if (poll(waited.data(), waited.size(), -1) < 0) continue;
    if (waited[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof info) == sizeof info) on_signal_(count++);
  }
}

}  // namespace rose
