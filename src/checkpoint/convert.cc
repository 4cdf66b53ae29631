#include "checkpoint/convert.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <optional>

#include "base/file.h"
#include "base/parallel_for.h"
#include "base/progress.h"
#include "checkpoint/convert_config.h"
#include "checkpoint/convert_journal.h"
#include "checkpoint/convert_matrix.h"
#include "checkpoint/convert_plan.h"
#include "checkpoint/convert_report.h"
#include "checkpoint/disk_space.h"
#include "checkpoint/resolve.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/scales.h"
#include "checkpoint/shards.h"

namespace rose {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr char kReportName[] = "convert_report.json";

// What a folder must be written from to be taken up again: the source's files with size and time of
// change, the format, and how the output is cut.
std::string Identity(const Checkpoint& checkpoint, const ConvertOptions& options) {
  json::array files;
  std::vector<std::string> names = checkpoint.files();
  names.push_back("config.json");
  for (const std::string& name : names) {
    struct stat info{};
    ::stat((checkpoint.folder() + "/" + name).c_str(), &info);
    files.push_back({name, info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec});
  }
  std::error_code ignored;
  return json::serialize(
      json::object{{"journal", 1},
                   {"source", fs::weakly_canonical(checkpoint.folder(), ignored).string()},
                   {"files", std::move(files)},
                   {"to", std::string(options.to->name())},
                   {"max_shard_bytes", options.max_shard_bytes}});
}

Status CheckScales(const Checkpoint& checkpoint, const ConvertPlan& plan) {
  std::vector<std::string> bad;
  for (const ConvertJob& job : plan.jobs) {
    if (!job.source.scales) continue;
    const std::string& name = job.source.scales->name;
    std::string problem = FindBadScale(name, checkpoint.Data(name));
    if (!problem.empty()) bad.push_back(std::move(problem));
  }
  if (bad.empty()) return Status();
  return InvalidArgument(checkpoint.folder(), ": scales that are not numbers", NameList(bad));
}

void SyncFolder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

class Converter {
 public:
  Converter(const Checkpoint& checkpoint, const ConvertOptions& options, ConvertPlan plan)
      : checkpoint_(checkpoint),
        options_(options),
        plan_(std::move(plan)),
        partial_(PartialName(options.out)) {}

  // Everything up to the rename. On failure the caller calls Discard.
  Result<ConvertSummary> Run() {
    ROSE_RETURN_IF_ERROR(RefuseForeignFolder());
    std::error_code error;
    fs::create_directories(partial_, error);
    if (error) return IoError(partial_, ": cannot make the folder: ", error.message());
    Result<ConvertJournal> journal =
        ConvertJournal::Open(partial_, Identity(checkpoint_, options_));
    is_foreign_ = !journal.ok() && journal.status().code() == StatusCode::kUnavailable;
    if (!journal.ok()) return journal.status();
    journal_.emplace(std::move(journal).value());
    Status status = WriteShards();
    if (status.code() == StatusCode::kNotFound) {  // what the journal promises is not there
      ROSE_RETURN_IF_ERROR(journal_->Restart());
      status = WriteShards();
    }
    ROSE_RETURN_IF_ERROR(status);
    return Finish();
  }

  void Discard() {
    if (is_foreign_) return;
    std::error_code ignored;
    fs::remove_all(partial_, ignored);
  }

 private:
  // What stands under the temporary name and is not the work of an earlier run is never touched.
  Status RefuseForeignFolder() {
    std::error_code ignored;
    const fs::file_status status = fs::symlink_status(partial_, ignored);
    if (!fs::exists(status)) return Status();
    const fs::path journal = fs::path(partial_) / ConvertJournal::kName;
    if (fs::is_directory(status) && (fs::is_empty(partial_, ignored) ||
                                     fs::is_regular_file(fs::symlink_status(journal, ignored)))) {
      return Status();
    }
    is_foreign_ = true;
    return InvalidArgument(partial_,
                           ": the conversion needs this name, and something else has it; ",
                           "rename or remove it");
  }

  Status WriteShards() {
    done_bytes_ = 0;
    resumed_ = journal_->done();
    if (resumed_ == 0) RemoveAllButJournal();
    for (const json::value& report : journal_->reports()) ROSE_RETURN_IF_ERROR(Judge(report));
    ROSE_RETURN_IF_ERROR(CheckSpace());
    for (const ConvertShard& shard : plan_.shards) ROSE_RETURN_IF_ERROR(WriteShard(shard));
    return Status();
  }

  void RemoveAllButJournal() {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(partial_, ignored))
      if (entry.path().filename() != ConvertJournal::kName) fs::remove_all(entry.path(), ignored);
  }

  Status CheckSpace() {
    int64_t needed = 0;
    for (size_t i = journal_->done(); i < plan_.jobs.size(); ++i) needed += plan_.jobs[i].bytes();
    return CheckDiskSpace(partial_, needed);
  }

  // kNotFound if work that the journal has as done is not on the disk.
  Status WriteShard(const ConvertShard& shard) {
    const std::string path = partial_ + "/" + shard.file;
    const int64_t done = journal_->done();
    int64_t kept_tensors = 0;
    for (int64_t i = shard.first_job; i < std::min(done, shard.end_job); ++i) {
      kept_tensors += static_cast<int64_t>(plan_.jobs[i].tensors().size());
      done_bytes_ += plan_.jobs[i].bytes();
    }
    if (done >= shard.end_job && fs::exists(path)) return Status();
    Result<std::unique_ptr<SafetensorsWriter>> created =
        SafetensorsWriter::Create(path, shard.tensors, kept_tensors);
    if (!created.ok() && created.status().code() == StatusCode::kInvalidArgument)
      return NotFound(created.status().message());
    if (!created.ok()) return created.status();
    SafetensorsWriter& writer = **created;
    Report();
    for (int64_t i = std::max(done, shard.first_job); i < shard.end_job; ++i) {
      json::value report;
      if (plan_.jobs[i].is_converted) {
        ROSE_ASSIGN_OR_RETURN(report, Convert(plan_.jobs[i], writer));
        ROSE_RETURN_IF_ERROR(Judge(report));
      } else {
        ROSE_RETURN_IF_ERROR(Copy(plan_.jobs[i], writer));
      }
      // Copies are cheap to do again; they are committed with what follows.
      if (!plan_.jobs[i].is_converted && i + 1 < shard.end_job) continue;
      ROSE_RETURN_IF_ERROR(writer.Sync());
      ROSE_RETURN_IF_ERROR(journal_->Commit(i + 1, std::move(report)));
    }
    return writer.Finish();
  }

  Status Append(SafetensorsWriter& writer, std::span<const uint8_t> bytes) {
    ROSE_RETURN_IF_ERROR(writer.Append(bytes));
    done_bytes_ += static_cast<int64_t>(bytes.size());
    Report();
    return Status();
  }

  void Report() const {
    if (options_.progress) options_.progress({done_bytes_, plan_.bytes});
  }

  Status Copy(const ConvertJob& job, SafetensorsWriter& writer) {
    for (const StoredTensor& tensor : job.tensors()) {
      const Tensor view = checkpoint_.Data(tensor.name);
      ROSE_RETURN_IF_ERROR(Append(writer, {static_cast<const uint8_t*>(view.raw()),
                                           static_cast<size_t>(StoredBytes(tensor))}));
    }
    return Status();
  }

  // Converts the experts of a weight, some at a time, and writes them in order, then all scales.
  Result<json::value> Convert(const ConvertJob& job, SafetensorsWriter& writer) {
    const int64_t experts = job.shape.size() == 3 ? job.shape[0] : 1;
    std::vector<std::vector<BlockReport>> blocks;
    std::vector<uint8_t> scales;
    for (int64_t first = 0; first < experts; first += options_.threads) {
      const int64_t count = std::min<int64_t>(options_.threads, experts - first);
      std::vector<std::optional<Result<ConvertedMatrix>>> results(count);
      ParallelFor(options_.threads, count, [&](int64_t i) {
        results[i].emplace(ConvertMatrix(checkpoint_, job, *options_.to, first + i));
      });
      for (std::optional<Result<ConvertedMatrix>>& result : results) {
        ROSE_ASSIGN_OR_RETURN(ConvertedMatrix matrix, std::move(*result));
        ROSE_RETURN_IF_ERROR(Append(writer, matrix.data));
        scales.insert(scales.end(), matrix.scales.begin(), matrix.scales.end());
        blocks.push_back(std::move(matrix.blocks));
      }
    }
    ROSE_RETURN_IF_ERROR(Append(writer, scales));
    return WeightReport(job, *options_.to, blocks);
  }

  // With `strict`, an inexact weight ends everything.
  Status Judge(const json::value& report) const {
    if (!options_.strict || report.at("exact").as_bool()) return Status();
    ConvertSummary summary;
    AddToSummary(report, summary);
    return Unavailable("not bit-exact in ", options_.to->name(),
                       ", and --strict refuses: ", summary.inexact_blocks, " of ", summary.blocks,
                       " blocks change", NameList(summary.inexact));
  }

  Result<ConvertSummary> Finish() {
    ConvertSummary summary;
    for (size_t i = 0; i < plan_.jobs.size(); ++i) {
      ++(plan_.jobs[i].is_converted ? summary.converted : summary.copied);
    }
    summary.resumed = resumed_;
    summary.bytes_before = checkpoint_.bytes();
    summary.bytes_after = plan_.bytes;
    for (const json::value& report : journal_->reports()) AddToSummary(report, summary);
    summary.report_path = options_.out + "/" + kReportName;
    ROSE_RETURN_IF_ERROR(WriteFileAtomically(
        partial_ + "/" + kReportName,
        ReportText(checkpoint_.folder(), *options_.to, summary, journal_->reports())));
    ROSE_RETURN_IF_ERROR(WriteIndex());
    ROSE_ASSIGN_OR_RETURN(const std::string config,
                          ConvertedConfig(checkpoint_.config_json(), options_.to->format(),
                                          plan_.KeptModules(*options_.to)));
    ROSE_RETURN_IF_ERROR(WriteFileAtomically(partial_ + "/config.json", config));
    ROSE_RETURN_IF_ERROR(CopySideFiles());
    SyncFolder(partial_);
    if (::rename(partial_.c_str(), options_.out.c_str()) != 0)
      return FileError(options_.out, "rename the finished folder");
    ::unlink((options_.out + "/" + ConvertJournal::kName).c_str());
    SyncFolder(fs::path(options_.out).parent_path());
    return summary;
  }

  Status WriteIndex() const {
    if (plan_.shards.size() == 1) return Status();
    json::object map;
    for (const ConvertShard& shard : plan_.shards)
      for (const StoredTensor& tensor : shard.tensors) map[tensor.name] = shard.file;
    const json::object index{{"metadata", json::object{{"total_size", plan_.bytes}}},
                             {"weight_map", std::move(map)}};
    return WriteFileAtomically(partial_ + "/model.safetensors.index.json", json::serialize(index));
  }

  // Tokenizer, chat template, licence and the like: small files that are not about the weights.
  Status CopySideFiles() const {
    constexpr int64_t kMaxBytes = 100'000'000;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(checkpoint_.folder(), error)) {
      std::error_code ignored;
      const std::string name = entry.path().filename().string();
      const bool is_skipped = name == "config.json" || name == "dtypes.json" ||
                              name == kReportName || name == "model.safetensors.index.json" ||
                              name.front() == '.' || entry.path().extension() == ".safetensors" ||
                              !entry.is_regular_file(ignored) ||
                              static_cast<int64_t>(entry.file_size(ignored)) > kMaxBytes;
      if (is_skipped) continue;
      ROSE_ASSIGN_OR_RETURN(const std::string text, ReadFile(entry.path().string(), kMaxBytes));
      ROSE_RETURN_IF_ERROR(WriteFileAtomically(partial_ + "/" + name, text));
    }
    if (error) return IoError(checkpoint_.folder(), ": cannot list: ", error.message());
    return Status();
  }

  const Checkpoint& checkpoint_;
  const ConvertOptions& options_;
  const ConvertPlan plan_;
  const std::string partial_;
  std::optional<ConvertJournal> journal_;
  bool is_foreign_ = false;  // the folder is not this run's to change
  int64_t resumed_ = 0;
  int64_t done_bytes_ = 0;
};

}  // namespace

Result<ConvertSummary> ConvertCheckpoint(const Checkpoint& checkpoint,
                                         const std::vector<TensorSpec>& table,
                                         const ConvertOptions& options) {
  std::error_code ignored;
  if (fs::exists(options.out, ignored))
    return InvalidArgument(options.out, ": exists already; remove it or choose another --out");
  const Resolution resolution = ResolveTable(checkpoint, table);
  ROSE_RETURN_IF_ERROR(resolution.ToStatus(checkpoint.folder()));
  ROSE_ASSIGN_OR_RETURN(ConvertPlan plan,
                        PlanConversion(resolution.weights, *options.to, options.max_shard_bytes));
  ROSE_RETURN_IF_ERROR(CheckScales(checkpoint, plan));
  Converter converter(checkpoint, options, std::move(plan));
  Result<ConvertSummary> summary = converter.Run();
  if (!summary.ok()) converter.Discard();
  return summary;
}

}  // namespace rose
