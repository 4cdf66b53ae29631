// ReadAhead: several threads fill a ring of buffers with the pieces of something large; one
// consumer takes them in order, and gives them back when it is done with them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/status.h"

namespace rose {

class ReadAhead {
 public:
  // Puts piece `piece` into a buffer. Called once for each piece, from any thread, for several
  // pieces at a time.
  using Fill = std::function<Status(int64_t piece, std::byte* buffer)>;

  // Starts `threads` readers (at least one). Piece i goes to buffer i % buffers.size(), which the
  // caller owns; they must outlive this.
  ReadAhead(std::vector<std::byte*> buffers, int64_t pieces, int threads, Fill fill);
  // Waits for pieces that are being read; no more are begun.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Waits for the next piece, the first being 0: its buffer, or why it could not be filled. What
  // its reader threw is thrown again. At most as many pieces as there are buffers may be out.
  Result<std::byte*> Next();
  // Gives back the oldest piece that is out: its buffer will be filled again.
  void Release();

 private:
  struct Slot {
    std::byte* buffer = nullptr;
    bool is_filled = false;
    Status status;
    std::exception_ptr thrown;
  };

  void ReadPieces();

  const int64_t pieces_;
  const Fill fill_;
  std::mutex mutex_;  // guards all below but a slot's buffer
  std::condition_variable freed_, filled_;
  std::vector<Slot> slots_;
  int64_t begun_ = 0, taken_ = 0, released_ = 0;  // pieces
  bool is_ending_ = false;
  std::vector<std::jthread> readers_;
};

}  // namespace rose
