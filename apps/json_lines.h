// What the commands share that answer lines of JSON with lines of JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace rose {

// The answer to one line of standard input: JSON without a line end.
using LineAnswer = std::function<Result<std::string>(std::string_view line)>;

// Answers every line of standard input with one line of ASCII on standard output; one that has no
// answer with {"error": "..."}, and goes on. Gives the exit code: 0, 2 if a line had no answer, 1
// if the output could not be written.
int AnswerJsonLines(const LineAnswer& answer);

// A whole number; one that no vocabulary holds, even beyond 32 bits, stays an unknown id (-1).
std::optional<int32_t> TokenIdFromJson(const JsonValue& json);
// [1, 2, ...]
Result<std::vector<int32_t>> TokenIdsFromJson(const JsonValue& json);
std::string TokenIdsToJson(const std::vector<int32_t>& ids);

// All tokens as valid UTF-8.
std::string DecodeValid(const Tokenizer& tokenizer, const std::vector<int32_t>& ids);

// A model folder, a tokenizer's file, or "o200k_harmony"; empty: the shipped model's.
Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& model);

}  // namespace rose
