#include "checkpoint/make_checkpoint.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <filesystem>

#include "base/file.h"
#include "base/parallel_for.h"
#include "checkpoint/convert_config.h"
#include "checkpoint/disk_space.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/transpose.h"

namespace rose {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// A stored tensor: some numbers, or some scales, of a row of the table.
struct Piece {
  StoredTensor tensor;
  const RandomRecipe* recipe = nullptr;
  bool are_scales = false;
  bool is_transposed = false;  // bf16 experts, stored with the input axis first
  // Numbers or scales of the recipe: `run` of them, every `pitch` from `begin` on, `count` in all.
  int64_t begin = 0, count = 0, run = 0, pitch = 0;
};

struct Shard {
  std::string file;
  std::vector<Piece> pieces;
};

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

// What [begin, begin + product of shape) of the recipe becomes.
Piece PlainPiece(StoredTensor tensor, const RandomRecipe& recipe, bool are_scales, int64_t begin,
                 int64_t count) {
  return {std::move(tensor), &recipe, are_scales, false, begin, count, count, count};
}

// A matrix for every expert and stem. The rows of an expert's stems take turns, and so do those of
// their scales.
Status AddPiecesApart(const TensorSpec& spec, const RandomRecipe& recipe,
                      std::vector<Piece>& pieces) {
  const WeightFormat& format = recipe.format;
  if (format.packing == Packing::kMxfp4) {
    return Unsupported("'", spec.name, "' lies in tensors of its own for every expert, and no ",
                       "published layout has mxfp4 there; make the experts bf16 or fp8-block");
  }
  const TensorSource& stems = spec.sources.front();
  const int64_t woven = std::ssize(stems);
  const auto add = [&](StoredTensor tensor, bool are_scales, int64_t matrix) {
    const int64_t count = Product(tensor.shape), run = tensor.shape.back();
    const int64_t begin = matrix / woven * woven * count + matrix % woven * run;
    pieces.push_back(
        {std::move(tensor), &recipe, are_scales, false, begin, count, run, woven * run});
  };
  for (int64_t matrix = 0; matrix < spec.shape[0] * woven; ++matrix) {
    std::string stem = stems[matrix % woven];
    stem.replace(stem.find('*'), 1, std::to_string(matrix / woven));
    const std::vector<int64_t> shape = {spec.shape[1] / woven, spec.shape[2]};
    StoredWeight stored = CodecFor(format).Describe(stem, shape);
    add(std::move(stored.data), false, matrix);
    if (stored.scales) add(std::move(*stored.scales), true, matrix);
  }
  return Status();
}

// The tensors of a row, in order.
Status AddPieces(const TensorSpec& spec, const RandomRecipe& recipe, std::vector<Piece>& pieces) {
  const TensorSource& stems = spec.sources.front();
  if (stems.front().find('*') != std::string::npos) return AddPiecesApart(spec, recipe, pieces);
  if (stems.size() > 1 && stems.size() != spec.part_rows.size()) {
    return Unsupported("'", spec.name, "' is made of ", stems.size(),
                       " tensors whose sizes the model's table does not say");
  }
  int64_t begin = 0, scales_begin = 0;
  for (size_t part = 0; part < stems.size(); ++part) {
    std::vector<int64_t> shape = spec.shape;
    if (stems.size() > 1) shape[0] = spec.part_rows[part];
    StoredWeight stored = CodecFor(recipe.format).Describe(stems[part], shape);
    pieces.push_back(PlainPiece(std::move(stored.data), recipe, false, begin, Product(shape)));
    pieces.back().is_transposed = stored.transposed;
    begin += Product(shape);
    if (!stored.scales) continue;
    const int64_t scales = Product(stored.scales->shape);
    pieces.push_back(PlainPiece(std::move(*stored.scales), recipe, true, scales_begin, scales));
    scales_begin += scales;
  }
  ROSE_CHECK_EQ(begin, Product(spec.shape));
  return Status();
}

// A shard ends before the tensor that would make it longer than `max_bytes`.
std::vector<Shard> CutShards(std::vector<Piece> pieces, int64_t max_bytes) {
  std::vector<Shard> shards;
  int64_t bytes = 0;
  for (Piece& piece : pieces) {
    const int64_t more = StoredBytes(piece.tensor);
    if (shards.empty() || bytes + more > max_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += more;
    shards.back().pieces.push_back(std::move(piece));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    char name[64] = "model.safetensors";
    if (shards.size() > 1)
      std::snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    shards[i].file = name;
  }
  return shards;
}

class Maker {
 public:
  Maker(const MakeCheckpointOptions& options, std::vector<Piece> pieces)
      : options_(options), partial_(PartialName(options.out)) {
    for (const Piece& piece : pieces) summary_.bytes += StoredBytes(piece.tensor);
    summary_.tensors = std::ssize(pieces);
    shards_ = CutShards(std::move(pieces), options.max_shard_bytes);
    summary_.files = std::ssize(shards_);
  }

  Result<MakeCheckpointSummary> Run(const std::string& config_json) {
    // A file system in memory, such as /dev/shm, would take the machine's last byte first.
    ROSE_RETURN_IF_ERROR(CheckDiskSpace(partial_, summary_.bytes));
    ROSE_RETURN_IF_ERROR(WriteFileAtomically(partial_ + "/config.json", config_json));
    ROSE_RETURN_IF_ERROR(CopySideFiles());
    for (const Shard& shard : shards_) ROSE_RETURN_IF_ERROR(WriteShard(shard));
    if (shards_.size() > 1) ROSE_RETURN_IF_ERROR(WriteIndex());
    if (::rename(partial_.c_str(), options_.out.c_str()) != 0)
      return FileError(options_.out, "rename the finished folder");
    return summary_;
  }

 private:
  Status WriteShard(const Shard& shard) {
    std::vector<StoredTensor> tensors;
    for (const Piece& piece : shard.pieces) tensors.push_back(piece.tensor);
    ROSE_ASSIGN_OR_RETURN(const auto writer,
                          SafetensorsWriter::Create(partial_ + "/" + shard.file, tensors));
    for (const Piece& piece : shard.pieces) ROSE_RETURN_IF_ERROR(WritePiece(piece, *writer));
    return writer->Finish();
  }

  Status WritePiece(const Piece& piece, SafetensorsWriter& writer) {
    const int64_t count = piece.count;
    const int64_t bytes = StoredBytes(piece.tensor);
    // One expert at a time where it must be turned, else what fits into the buffer.
    const int64_t step = piece.is_transposed ? count / piece.tensor.shape[0]
                                             : int64_t{options_.threads} * 32 * kTask;
    for (int64_t at = 0; at < count; at += step) {
      if (options_.stop != nullptr && *options_.stop)
        return Unavailable(options_.out, ": stopped; what was written is removed");
      const int64_t end = std::min(count, at + step);
      buffer_.resize(EightBytes(bytes, count) * (end - at) / 8);
      Fill(piece, at, end, EightBytes(bytes, count));
      if (piece.is_transposed) Turn(piece);
      ROSE_RETURN_IF_ERROR(writer.Append(buffer_));
      done_bytes_ += std::ssize(buffer_);
      if (options_.progress) options_.progress({done_bytes_, summary_.bytes});
    }
    return Status();
  }

  // Bytes of eight numbers: those of mxfp4 have half a byte each.
  static int64_t EightBytes(int64_t bytes, int64_t numbers) { return 8 * bytes / numbers; }

  void Fill(const Piece& piece, int64_t begin, int64_t end, int64_t eight_bytes) {
    ParallelFor(options_.threads, (end - begin + kTask - 1) / kTask, [&](int64_t i) {
      const int64_t from = begin + i * kTask, to = std::min(end, from + kTask);
      FillRuns(piece, from, to, eight_bytes, buffer_.data() + (from - begin) * eight_bytes / 8);
    });
  }

  static void FillRuns(const Piece& piece, int64_t from, int64_t to, int64_t eight_bytes,
                       uint8_t* out) {
    const auto fill = piece.are_scales ? FillRandomScales : FillRandomData;
    while (from < to) {
      const int64_t at = piece.begin + from / piece.run * piece.pitch + from % piece.run;
      const int64_t n = std::min(to - from, piece.run - from % piece.run);
      fill(*piece.recipe, at, at + n, out);
      out += n * eight_bytes / 8;
      from += n;
    }
  }

  // buffer_ holds one expert's [rows, cols]; makes it [cols, rows].
  void Turn(const Piece& piece) {
    const int64_t rows = piece.tensor.shape[2], cols = piece.tensor.shape[1];
    std::vector<uint8_t> turned(buffer_.size());
    TransposePairs(buffer_.data(), rows, cols, turned.data());
    buffer_.swap(turned);
  }

  Status WriteIndex() const {
    json::object map;
    for (const Shard& shard : shards_)
      for (const Piece& piece : shard.pieces) map[piece.tensor.name] = shard.file;
    const json::object index{{"metadata", json::object{{"total_size", summary_.bytes}}},
                             {"weight_map", std::move(map)}};
    return WriteFileAtomically(partial_ + "/model.safetensors.index.json", json::serialize(index));
  }

  Status CopySideFiles() const {
    constexpr int64_t kMaxBytes = 100'000'000;
    if (options_.side_files.empty()) return Status();
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                             "chat_template.jinja", "generation_config.json"}) {
      const std::string path = options_.side_files + "/" + name;
      std::error_code ignored;
      if (!fs::exists(path, ignored)) continue;
      ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
      ROSE_RETURN_IF_ERROR(WriteFileAtomically(partial_ + "/" + name, text));
    }
    return Status();
  }

  static constexpr int64_t kTask = 1 << 20;  // numbers; whole words of random bits

  const MakeCheckpointOptions& options_;
  const std::string partial_;
  std::vector<Shard> shards_;
  std::vector<uint8_t> buffer_;
  int64_t done_bytes_ = 0;
  MakeCheckpointSummary summary_;
};

}  // namespace

Result<MakeCheckpointSummary> MakeCheckpoint(std::string_view config_json,
                                             const std::vector<TensorSpec>& table,
                                             const MakeCheckpointOptions& options) {
  const std::string partial = PartialName(options.out);
  std::error_code error;
  for (const std::string& name : {options.out, partial}) {
    if (fs::exists(name, error))
      return InvalidArgument(name, ": exists already; remove it or choose another --out");
  }
  if (!options.side_files.empty() && !fs::exists(options.side_files + "/tokenizer.json", error))
    return NotFound(options.side_files, ": has no tokenizer.json");
  ROSE_ASSIGN_OR_RETURN(const std::vector<RandomRecipe> recipes,
                        RandomRecipes(table, options.random));
  std::vector<Piece> pieces;
  std::vector<std::string> kept;  // modules of the matrices, which are bf16 here
  for (size_t i = 0; i < table.size(); ++i) {
    ROSE_RETURN_IF_ERROR(AddPieces(table[i], recipes[i], pieces));
    if (table[i].kind != TensorKind::kMatrix) continue;
    for (const std::string& stem : table[i].sources.front()) {
      std::string module = ModuleOf(stem);
      if (std::find(kept.begin(), kept.end(), module) == kept.end())
        kept.push_back(std::move(module));
    }
  }
  ROSE_ASSIGN_OR_RETURN(const std::string config,
                        ConvertedConfig(config_json, options.random.experts, kept));
  if (const fs::path parent = fs::path(partial).parent_path(); !parent.empty())
    fs::create_directories(parent, error);
  // Only who makes the folder may write to it, and remove it.
  const bool is_ours = !error && fs::create_directory(partial, error);
  if (error) return IoError(partial, ": cannot make the folder: ", error.message());
  if (!is_ours) return InvalidArgument(partial, ": another run is making it; wait for its end");
  Maker maker(options, std::move(pieces));
  Result<MakeCheckpointSummary> made = maker.Run(config);
  if (!made.ok()) fs::remove_all(partial, error);
  return made;
}

}  // namespace rose
