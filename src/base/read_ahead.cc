#include "base/read_ahead.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace rose {

ReadAhead::ReadAhead(std::vector<std::byte*> buffers, int64_t pieces, int threads, Fill fill)
    : pieces_(pieces), fill_(std::move(fill)) {
  ROSE_CHECK(!buffers.empty(), "a ring without buffers");
  for (std::byte* buffer : buffers) slots_.push_back({.buffer = buffer});
  for (int64_t i = 0; i < std::clamp<int64_t>(threads, 1, std::max<int64_t>(1, pieces)); ++i) {
    readers_.emplace_back([this] { ReadPieces(); });
  }
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  freed_.notify_all();
  readers_.clear();
}

void ReadAhead::ReadPieces() {
  std::unique_lock lock(mutex_);
  for (;;) {
    freed_.wait(lock, [this] {
      return is_ending_ || begun_ == pieces_ || begun_ < released_ + std::ssize(slots_);
    });
    if (is_ending_ || begun_ == pieces_) return;
    const int64_t piece = begun_++;
    Slot& slot = slots_[piece % std::ssize(slots_)];
    lock.unlock();
    Status status;
    std::exception_ptr thrown;
    try {
      status = fill_(piece, slot.buffer);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    slot.status = std::move(status);
    slot.thrown = thrown;
    slot.is_filled = true;
    filled_.notify_one();
  }
}

Result<std::byte*> ReadAhead::Next() {
  std::unique_lock lock(mutex_);
  ROSE_CHECK_LT(taken_, pieces_);
  ROSE_CHECK_LT(taken_ - released_, std::ssize(slots_));
  Slot& slot = slots_[taken_ % std::ssize(slots_)];
  filled_.wait(lock, [&slot] { return slot.is_filled; });
  ++taken_;
  slot.is_filled = false;
  if (slot.thrown) std::rethrow_exception(slot.thrown);
  if (!slot.status.ok()) return slot.status;
  return slot.buffer;
}

void ReadAhead::Release() {
  const std::lock_guard lock(mutex_);
  ROSE_CHECK_LT(released_, taken_);
  ++released_;
  freed_.notify_one();
}

}  // namespace rose
