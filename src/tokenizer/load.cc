// LoadTokenizer: finds the tokenizer file of a folder and gives it to its parser.
#include <algorithm>
#include <filesystem>

#include "base/mapped_file.h"
#include "tokenizer/bpe_tokenizer.h"

namespace rose {
namespace {

namespace fs = std::filesystem;

// tokenizer.json, else the only *.tiktoken file.
Result<fs::path> FindFile(const fs::path& folder) {
  std::error_code error;
  const fs::path json = folder / "tokenizer.json";
  if (fs::exists(json, error)) return json;
  std::vector<fs::path> ranks;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() == ".tiktoken") ranks.push_back(entry->path());
  }
  if (error) return IoError("cannot list ", folder.string(), ": ", error.message());
  if (ranks.size() == 1) return ranks[0];
  if (ranks.empty()) return NotFound(folder.string(), " has no tokenizer.json and no *.tiktoken");
  std::sort(ranks.begin(), ranks.end());
  return InvalidArgument(folder.string(), " has several *.tiktoken files, such as ",
                         ranks[0].filename().string(), " and ", ranks[1].filename().string(),
                         "; give the path of one");
}

}  // namespace

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& path) {
  std::error_code error;
  fs::path file = path;
  if (!fs::exists(file, error)) return NotFound("there is no ", path);
  if (fs::is_directory(file, error)) {
    ROSE_ASSIGN_OR_RETURN(file, FindFile(file));
  }
  ROSE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(file));
  const std::string_view content(reinterpret_cast<const char*>(mapped.bytes().data()),
                                 mapped.bytes().size());
  const bool is_json = file.extension() == ".json";
  if (!is_json && file.extension() != ".tiktoken") {
    return InvalidArgument(path, " is neither a .json nor a .tiktoken file");
  }
  auto tokenizer = is_json ? ParseTokenizerJson(content) : ParseTiktoken(content);
  if (tokenizer.ok()) return tokenizer;
  return Status(tokenizer.status().code(),
                StrCat(file.string(), ": ", tokenizer.status().message()));
}

}  // namespace rose
