// Texts to measure a tokenizer with, the same on every machine.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace rose {

// Writes texts with the words of a vocabulary. Tokens have low ids where they were frequent in what
// the vocabulary was made from, so words are drawn with a frequency of one through their place, as
// in natural text; every twelfth is joined from two and is no token.
class TextMaker {
 public:
  explicit TextMaker(const Tokenizer& tokenizer);

  // At least `bytes` of it, less than a line more.
  std::string English(int64_t bytes);
  std::string Code(int64_t bytes);
  std::string Chinese(int64_t bytes);
  // Code points drawn evenly from all that UTF-8 can write.
  std::string RandomUtf8(int64_t bytes);
  // Code points of one to four bytes, each length as often.
  std::string RandomMixedUtf8(int64_t bytes);
  // What users send: a sentence or a few, a line of code, Chinese.
  std::vector<std::string> Chat(int64_t messages);
  // Short texts made to find differences: blanks, marks, contractions, digits, runs, code points of
  // many scripts, tokens in a row.
  std::string Tricky();

 private:
  int64_t Below(int64_t limit) { return static_cast<int64_t>(random_() % limit); }
  const std::string& Draw(const std::vector<std::string>& words);
  std::string Word();
  std::string Identifier();
  std::string Sentence();
  std::string CodeLine();
  std::string Clause();

  const Tokenizer& tokenizer_;
  std::mt19937_64 random_{1};
  std::vector<std::string> words_;  // a-z, by rank
  std::vector<std::string> han_;    // Chinese, by rank
};

}  // namespace rose
