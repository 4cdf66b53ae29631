#include "checkpoint/convert_report.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace rose {
namespace {

namespace json = boost::json;

constexpr size_t kMaxInexactListed = 1000;  // of one weight, in the file
constexpr size_t kMaxSentences = 10;        // of all weights, in the summary

int64_t BlockColumns(const std::vector<int64_t>& shape) {
  return (shape.back() + kReportBlock - 1) / kReportBlock;
}

json::array ToArray(const std::vector<int64_t>& numbers) {
  return json::array(numbers.begin(), numbers.end());
}

}  // namespace

json::value WeightReport(const ConvertJob& job, const Codec& to,
                         const std::vector<std::vector<BlockReport>>& blocks) {
  json::array spreads, inexact;
  int64_t count = 0, inexact_blocks = 0, inexact_values = 0;
  double worst = 0;
  const int64_t columns = BlockColumns(job.shape);
  for (size_t expert = 0; expert < blocks.size(); ++expert) {
    json::array expert_spreads;
    for (size_t index = 0; index < blocks[expert].size(); ++index) {
      const BlockReport& block = blocks[expert][index];
      ++count;
      expert_spreads.push_back(block.spread);
      if (block.inexact_values == 0) continue;
      ++inexact_blocks;
      inexact_values += block.inexact_values;
      worst = std::max(worst, block.max_relative_error);
      if (inexact.size() == kMaxInexactListed) continue;
      const int64_t at = static_cast<int64_t>(index);
      inexact.push_back({{"expert", expert},
                         {"block", json::array{at / columns, at % columns}},
                         {"spread", block.spread},
                         {"values", block.inexact_values},
                         {"max_relative_error", block.max_relative_error}});
    }
    spreads.push_back(std::move(expert_spreads));
  }
  json::object report{{"name", job.stem},
                      {"from", std::string(job.from->name())},
                      {"to", std::string(to.name())},
                      {"shape", ToArray(job.shape)},
                      {"exact", inexact_blocks == 0},
                      {"blocks", count},
                      {"inexact_blocks", inexact_blocks},
                      {"inexact_values", inexact_values},
                      {"max_relative_error", worst},
                      {"inexact", std::move(inexact)}};
  if (job.from->format().packing == Packing::kMxfp4) report["spreads"] = std::move(spreads);
  return report;
}

void AddToSummary(const json::value& report, ConvertSummary& summary) {
  summary.blocks += report.at("blocks").to_number<int64_t>();
  summary.inexact_blocks += report.at("inexact_blocks").to_number<int64_t>();
  summary.inexact_values += report.at("inexact_values").to_number<int64_t>();
  const double error = report.at("max_relative_error").to_number<double>();
  summary.max_relative_error = std::max(summary.max_relative_error, error);
  for (const json::value& block : report.at("inexact").as_array()) {
    if (summary.inexact.size() == kMaxSentences) break;
    const json::value& at = block.at("block");
    std::string sentence =
        StrCat(std::string(report.at("name").as_string()), " expert ",
               block.at("expert").to_number<int64_t>(), " block [", at.at(0).to_number<int64_t>(),
               ", ", at.at(1).to_number<int64_t>(), "]: ", block.at("values").to_number<int64_t>(),
               " values change, by at most ",
               100 * block.at("max_relative_error").to_number<double>(), " %");
    const int64_t spread = block.at("spread").to_number<int64_t>();
    if (spread != BlockReport::kNoSpread) sentence += StrCat("; exponents spread over ", spread);
    summary.inexact.push_back(std::move(sentence));
  }
  const json::value* spreads = report.as_object().if_contains("spreads");
  if (spreads == nullptr) return;
  for (const json::value& expert : spreads->as_array()) {
    for (const json::value& value : expert.as_array()) {
      const int64_t spread = value.to_number<int64_t>();
      if (spread < 0) continue;
      if (static_cast<size_t>(spread) >= summary.spreads.size()) summary.spreads.resize(spread + 1);
      ++summary.spreads[spread];
    }
  }
}

std::string ReportText(const std::string& source, const Codec& to, const ConvertSummary& summary,
                       const std::vector<json::value>& weights) {
  const json::object sums{{"source", source},
                          {"to", std::string(to.name())},
                          {"exact", summary.inexact_blocks == 0},
                          {"weights_converted", summary.converted},
                          {"weights_copied", summary.copied},
                          {"bytes_before", summary.bytes_before},
                          {"bytes_after", summary.bytes_after},
                          {"block_size", json::array{kReportBlock, kReportBlock}},
                          {"blocks", summary.blocks},
                          {"inexact_blocks", summary.inexact_blocks},
                          {"inexact_values", summary.inexact_values},
                          {"max_relative_error", summary.max_relative_error},
                          {"spread_histogram", ToArray(summary.spreads)}};
  std::string text = json::serialize(sums);
  text.pop_back();  // the closing brace: the weights follow, one a line
  text += ",\"weights\":[";
  for (size_t i = 0; i < weights.size(); ++i)
    text += (i > 0 ? ",\n" : "\n") + json::serialize(weights[i]);
  return text + "]}\n";
}

}  // namespace rose
