#include "checkpoint/resolve.h"

#include <optional>
#include <set>

#include "checkpoint/shards.h"

namespace rose {
namespace {

bool MayUse(TensorKind kind, Packing packing) {
  switch (kind) {
    case TensorKind::kVector:
      return packing == Packing::kBf16;
    case TensorKind::kMatrix:
      return packing != Packing::kMxfp4;
    case TensorKind::kExperts:
      return true;
  }
  ROSE_CHECK(false, "tensor kind ", static_cast<int>(kind));
}

// One alternative of one row, tried.
struct Attempt {
  ResolvedWeight weight;
  std::vector<std::string> missing;
  std::vector<std::string> wrong;
};

class Resolver {
 public:
  explicit Resolver(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {
    lookup_ = [&checkpoint](std::string_view name) -> std::optional<StoredTensor> {
      const auto tensor = checkpoint.tensors().find(name);
      if (tensor == checkpoint.tensors().end()) return std::nullopt;
      return tensor->second;
    };
  }

  void Row(const TensorSpec& spec) {
    ROSE_CHECK(!spec.sources.empty(), "table row '", spec.name, "' has no source");
    std::optional<Attempt> best;
    for (const TensorSource& source : spec.sources) {
      Attempt attempt = Try(spec, source);
      const bool is_better = !best || attempt.missing.size() + best->weight.stems.size() <
                                          best->missing.size() + attempt.weight.stems.size();
      if (is_better) best = std::move(attempt);
      if (best->missing.empty()) break;
    }
    for (const std::string& stem : best->weight.stems) Consume(stem, *best);
    Append(best->missing, result_.missing);
    Append(best->wrong, result_.wrong);
    if (best->missing.empty() && best->wrong.empty())
      result_.weights.push_back(std::move(best->weight));
  }

  Resolution Finish() {
    for (const auto& [name, tensor] : checkpoint_.tensors())
      if (consumed_.count(name) == 0) result_.left_over.push_back("'" + name + "'");
    return std::move(result_);
  }

 private:
  static void Append(const std::vector<std::string>& from, std::vector<std::string>& to) {
    to.insert(to.end(), from.begin(), from.end());
  }

  Attempt Try(const TensorSpec& spec, const TensorSource& source) {
    Attempt attempt;
    attempt.weight = {&spec, nullptr, source, {}};
    ROSE_CHECK(source.size() == 1 || spec.kind != TensorKind::kExperts,
               "joined experts: ", spec.name);
    int64_t rows = 0;
    for (const std::string& stem : source) {
      std::vector<int64_t> shape = spec.shape;
      if (source.size() > 1) {  // how many rows a part has is for the parts to say
        const std::optional<StoredTensor> stored = lookup_(stem);
        if (stored && !stored->shape.empty()) shape[0] = stored->shape[0];
        rows += shape[0];
      }
      Part(stem, shape, attempt);
    }
    if (source.size() > 1 && attempt.missing.empty() && attempt.wrong.empty())
      CheckJoin(rows, attempt);
    return attempt;
  }

  // Lets the codecs look for one source; the first that knows its names decides.
  void Part(const std::string& stem, std::span<const int64_t> shape, Attempt& attempt) {
    const TensorSpec& spec = *attempt.weight.spec;
    for (const Codec* codec : AllCodecs()) {
      if (!MayUse(spec.kind, codec->format().packing)) continue;
      Result<std::optional<StoredWeight>> found = codec->Recognise(stem, shape, lookup_);
      if (!found.ok()) {
        attempt.wrong.push_back(found.status().message());
        return;
      }
      if (!*found) continue;
      if (attempt.weight.codec != nullptr && attempt.weight.codec != codec) {
        attempt.wrong.push_back(StrCat("tensor '", stem, "' is ", codec->name(),
                                       ", but what it is joined with is ",
                                       attempt.weight.codec->name()));
        return;
      }
      attempt.weight.codec = codec;
      attempt.weight.parts.push_back(std::move(**found));
      return;
    }
    attempt.missing.push_back("'" + stem + "'");
    if (spec.kind == TensorKind::kExperts) attempt.missing.back() += " (in any weight format)";
  }

  // Parts on top of each other must have the rows of the whole, and may not cut a block of scales.
  static void CheckJoin(int64_t rows, Attempt& attempt) {
    const ResolvedWeight& weight = attempt.weight;
    if (rows != weight.spec->shape[0])
      attempt.wrong.push_back(StrCat("the rows of '", weight.stems.front(),
                                     "' and what follows add up to ", rows, ", expected ",
                                     weight.spec->shape[0]));
    const int64_t block_rows = weight.codec->format().block_rows;
    for (size_t i = 0; i + 1 < weight.parts.size(); ++i) {
      const StoredTensor& data = weight.parts[i].data;
      if (data.shape[0] % block_rows != 0)
        attempt.wrong.push_back(StrCat("tensor '", data.name, "' has ", data.shape[0],
                                       " rows; joined ", weight.codec->name(),
                                       " needs a multiple of ", block_rows));
    }
  }

  // Marks what belongs to a stem. Where it is wrong, all that a format might have there, so that it
  // is not also called left over.
  void Consume(const std::string& stem, const Attempt& attempt) {
    for (const StoredWeight& part : attempt.weight.parts) {
      consumed_.insert(part.data.name);
      if (part.scales) consumed_.insert(part.scales->name);
    }
    if (attempt.wrong.empty()) return;
    for (const char* suffix : {"", "_blocks", "_scales", ".blocks", ".scales", "_scale_inv"})
      consumed_.insert(stem + suffix);
  }

  const Checkpoint& checkpoint_;
  StoredLookup lookup_;
  std::set<std::string, std::less<>> consumed_;
  Resolution result_;
};

}  // namespace

Status Resolution::ToStatus(const std::string& folder) const {
  if (missing.empty() && wrong.empty() && left_over.empty()) return Status();
  std::string text = folder + ": the tensors are not those of the model in config.json";
  if (!missing.empty()) text += StrCat("\nmissing (", missing.size(), "):", NameList(missing));
  if (!wrong.empty()) text += StrCat("\nwrong (", wrong.size(), "):", NameList(wrong));
  if (!left_over.empty())
    text += StrCat("\nleft over (", left_over.size(), "):", NameList(left_over));
  return InvalidArgument(text);
}

Resolution ResolveTable(const Checkpoint& checkpoint, const std::vector<TensorSpec>& table) {
  Resolver resolver(checkpoint);
  for (const TensorSpec& spec : table) resolver.Row(spec);
  return resolver.Finish();
}

}  // namespace rose
