// A toy-sized tokenizer of Qwen's kind: its split rule, NFC and its added tokens.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "tokenizer/tokenizer.h"

namespace rose {

inline const Tokenizer& QwenToy() {
  static const std::unique_ptr<Tokenizer> tokenizer =
      LoadTokenizer(ROSE_SOURCE_DIR "/tests/data/qwen").value();
  return *tokenizer;
}

}  // namespace rose
