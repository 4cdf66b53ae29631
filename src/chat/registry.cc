// The chat formats, by name, and which family of models speaks which. One row each.
#include "chat/chat_format.h"
#include "chat/harmony.h"

namespace rose {
namespace {

struct FormatRow {
  std::string_view name;
  Result<std::unique_ptr<ChatFormat>> (*create)(const Tokenizer& tokenizer);
};
constexpr FormatRow kFormats[] = {{"harmony", CreateHarmony}};

struct FamilyRow {
  std::string_view architecture, format;
};
constexpr FamilyRow kFamilies[] = {{"GptOssForCausalLM", "harmony"}};

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

Result<std::string> ChatFormatOf(std::string_view architecture) {
  for (const FamilyRow& row : kFamilies)
    if (row.architecture == architecture) return std::string(row.format);
  return NotFound("No chat format is known for models of the architecture \"", architecture, "\".");
}

}  // namespace rose
