#include "base/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace rose {
namespace {

// A ring of `size` buffers of one number each.
struct Ring {
  explicit Ring(int size) : numbers(size, -1) {
    for (int64_t& number : numbers) buffers.push_back(reinterpret_cast<std::byte*>(&number));
  }
  std::vector<int64_t> numbers;
  std::vector<std::byte*> buffers;
};

int64_t& NumberAt(std::byte* buffer) {
  return *reinterpret_cast<int64_t*>(buffer);
}

TEST(ReadAheadTest, PiecesComeInOrderAndStayUntilTheyAreGivenBack) {
  constexpr int64_t kPieces = 200;
  for (const int threads : {1, 3, 8}) {
    for (const int size : {1, 2, 5}) {
      for (const int64_t held : {1, size}) {  // pieces that are out at a time
        Ring ring(size);
        std::atomic<int64_t> released{0}, most_ahead{0};
        ReadAhead pieces(ring.buffers, kPieces, threads, [&](int64_t piece, std::byte* buffer) {
          int64_t most = most_ahead;
          while (most < piece - released &&
                 !most_ahead.compare_exchange_weak(most, piece - released));
          NumberAt(buffer) = piece;
          return Status();
        });
        for (int64_t i = 0; i < kPieces; ++i) {
          if (i >= held) {
            EXPECT_EQ(ring.numbers[(i - held) % size], i - held) << "held, and filled again";
            ++released;
            pieces.Release();
          }
          const Result<std::byte*> buffer = pieces.Next();
          ASSERT_TRUE(buffer.ok());
          EXPECT_EQ(*buffer, ring.buffers[i % size]);
          EXPECT_EQ(NumberAt(*buffer), i);
        }
        EXPECT_LT(most_ahead, size) << threads << " threads";
      }
    }
  }
}

TEST(ReadAheadTest, AFailureComesInItsPlaceAndNoMoreIsRead) {
  for (const int threads : {1, 4}) {
    Ring ring(4);
    std::atomic<int64_t> last{-1};
    {
      ReadAhead pieces(ring.buffers, 1000, threads, [&](int64_t piece, std::byte* buffer) {
        last = std::max<int64_t>(last, piece);
        NumberAt(buffer) = piece;
        return piece == 5 ? IoError("piece 5 is torn") : Status();
      });
      for (int64_t i = 0; i < 5; ++i) {
        ASSERT_TRUE(pieces.Next().ok()) << i;
        pieces.Release();
      }
      const Result<std::byte*> torn = pieces.Next();
      ASSERT_FALSE(torn.ok());
      EXPECT_EQ(torn.status().message(), "piece 5 is torn");
    }
    EXPECT_LT(last, 5 + 4);
  }
}

TEST(ReadAheadTest, WhatAReaderThrowsIsThrownAgain) {
  Ring ring(2);
  ReadAhead pieces(ring.buffers, 10, 2, [](int64_t piece, std::byte*) -> Status {
    if (piece == 1) throw std::runtime_error("a bug");
    return Status();
  });
  EXPECT_TRUE(pieces.Next().ok());
  EXPECT_THROW((void)pieces.Next(), std::runtime_error);
}

TEST(ReadAheadTest, MayEndEarlyOrHaveNothingToDo) {
  for (const int64_t count : {0, 1, 100}) {
    Ring ring(3);
    ReadAhead pieces(ring.buffers, count, 8, [](int64_t, std::byte*) { return Status(); });
    if (count > 0) {
      EXPECT_TRUE(pieces.Next().ok());
    }
  }
}

TEST(ReadAheadTest, MoreThanTheRingCannotBeOut) {
  Ring ring(2);
  ReadAhead pieces(ring.buffers, 10, 1, [](int64_t, std::byte*) { return Status(); });
  EXPECT_THROW(pieces.Release(), CheckFailure);
  (void)pieces.Next();
  (void)pieces.Next();
  EXPECT_THROW((void)pieces.Next(), CheckFailure);
}

}  // namespace
}  // namespace rose
