#include "checkpoint/resolve.h"

#include <numeric>
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
    attempt.weight.spec = &spec;
    if (spec.kind == TensorKind::kExperts) {
      Experts(source, attempt);
    } else {
      Joined(source, attempt);
    }
    if (attempt.weight.codec != nullptr) attempt.weight.format = FormatInMemory(attempt.weight);
    return attempt;
  }

  void Joined(const TensorSource& source, Attempt& attempt) {
    attempt.weight.stems = source;
    int64_t rows = 0;
    for (const std::string& stem : source) {
      std::vector<int64_t> shape = attempt.weight.spec->shape;
      if (source.size() > 1) {  // how many rows a part has is for the parts to say
        const std::optional<StoredTensor> stored = lookup_(stem);
        if (stored && !stored->shape.empty()) shape[0] = stored->shape[0];
        rows += shape[0];
      }
      Part(stem, shape, attempt);
    }
    const bool is_whole = attempt.missing.empty() && attempt.wrong.empty();
    if (source.size() > 1 && is_whole && rows != attempt.weight.spec->shape[0])
      attempt.wrong.push_back(StrCat("the rows of '", source.front(),
                                     "' and what follows add up to ", rows, ", expected ",
                                     attempt.weight.spec->shape[0]));
  }

  // One stack, or matrices of their own in the order of experts, woven where there are several.
  void Experts(const TensorSource& source, Attempt& attempt) {
    const TensorSpec& spec = *attempt.weight.spec;
    const int64_t woven = std::ssize(source);
    if (woven == 1 && source.front().find('*') == std::string::npos) {
      attempt.weight.stems = source;
      return Part(source.front(), spec.shape, attempt);
    }
    ROSE_CHECK(spec.shape.size() == 3 && spec.shape[1] % woven == 0, spec.name);
    attempt.weight.is_apart = true;
    attempt.weight.woven = woven;
    for (int64_t expert = 0; expert < spec.shape[0]; ++expert) {
      for (const std::string& pattern : source) {
        const size_t star = pattern.find('*');
        ROSE_CHECK(star != std::string::npos, spec.name, ": no '*' in ", pattern);
        std::string stem = pattern;
        stem.replace(star, 1, std::to_string(expert));
        Part(stem, std::vector<int64_t>{spec.shape[1] / woven, spec.shape[2]}, attempt);
        attempt.weight.stems.push_back(std::move(stem));
      }
    }
  }

  // Blocks of scales begin anew with every part. Where a part ends within a block, the whole has
  // blocks of fewer rows, so that all borders are borders of blocks.
  static WeightFormat FormatInMemory(const ResolvedWeight& weight) {
    WeightFormat format = weight.codec->format();
    if (format.block_rows == 1) return format;
    if (weight.spec->kind == TensorKind::kExperts) {
      format.woven = static_cast<int>(weight.woven);
      return format;
    }
    int64_t rows = format.block_rows;
    for (size_t i = 0; i + 1 < weight.parts.size(); ++i)
      rows = std::gcd(rows, weight.parts[i].data.shape[0]);
    format.block_rows = static_cast<int>(rows);
    return format;
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
