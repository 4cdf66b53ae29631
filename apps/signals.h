// SIGINT and SIGTERM as calls on a thread, where ordinary code may run.
#pragma once

#include <functional>
#include <thread>

namespace rose {

// Takes both signals away from the calling thread and the threads it starts later, so make one
// before any other thread. Not copyable: its thread refers to it.
class SignalWatcher {
 public:
  // `on_signal` is called on a thread of its own: 1 for the first signal, 2 for the second, ...
  explicit SignalWatcher(std::function<void(int count)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void Run();

  std::function<void(int)> on_signal_;
  int signals_ = -1;  // readable once a signal came
  int stop_ = -1;     // readable once the destructor runs
  std::thread thread_;
};

}  // namespace rose
