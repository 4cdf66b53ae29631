// The chat formats, by name, and which family of models speaks which. One row each.
#include "chat/chat_format.h"
#include "chat/harmony.h"
#include "chat/qwen3.h"

namespace rose {
namespace {

struct FormatRow {
  std::string_view name;
  Result<std::unique_ptr<ChatFormat>> (*create)(const Tokenizer& tokenizer);
};
constexpr FormatRow kFormats[] = {{"harmony", CreateHarmony}, {"qwen3", CreateQwen3}};

struct FamilyRow {
  std::string_view architecture, format;
};
constexpr FamilyRow kFamilies[] = {{"GptOssForCausalLM", "harmony"},
                                   {"Qwen3MoeForCausalLM", "qwen3"}};

}  // namespace

Result<std::unique_ptr<ChatFormat>> CreateChatFormat(std::string_view name,
                                                     const Tokenizer& tokenizer) {
  std::string known;
  for (const FormatRow& row : kFormats) {
    if (row.name == name) return row.create(tokenizer);
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  return NotFound("There is no chat format \"", name, "\"; there are: ", known, ".");
}

Result<std::unique_ptr<ChatFormat>> CreateChatFormatFor(const Tokenizer& tokenizer) {
  std::string lacking;
  for (const FormatRow& row : kFormats) {
    auto format = row.create(tokenizer);
    if (format.ok()) return format;
    lacking += (lacking.empty() ? "" : " ") + format.status().message();
  }
  return NotFound("No chat format fits the tokenizer. ", lacking);
}

Result<std::string> ChatFormatOf(std::string_view architecture) {
  std::string known;
  for (const FamilyRow& row : kFamilies) {
    if (row.architecture == architecture) return std::string(row.format);
    known += (known.empty() ? "" : ", ") + std::string(row.architecture);
  }
  return NotFound("No chat format is known for models of the architecture \"", architecture,
                  "\"; there are those of ", known, " (docs/new-model.md says how to add one).");
}

}  // namespace rose
