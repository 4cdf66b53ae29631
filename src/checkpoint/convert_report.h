// The JSON report of a conversion, and the sums over it.
#pragma once

#include <boost/json/value.hpp>
#include <vector>

#include "checkpoint/block_report.h"
#include "checkpoint/convert.h"
#include "checkpoint/convert_plan.h"

namespace rose {

// One converted weight: names, formats, and for each expert the spread of every block and where the
// result is not exact (docs/checkpoints.md lists the fields). blocks[expert][block].
boost::json::value WeightReport(const ConvertJob& job, const Codec& to,
                                const std::vector<std::vector<BlockReport>>& blocks);

// Adds a WeightReport to the counts of `summary`.
void AddToSummary(const boost::json::value& report, ConvertSummary& summary);

// The whole file: the sums, then the weights.
std::string ReportText(const std::string& source, const Codec& to, const ConvertSummary& summary,
                       const std::vector<boost::json::value>& weights);

}  // namespace rose
