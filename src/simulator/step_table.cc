#include "simulator/step_table.h"

#include <cstdio>
#include <numeric>

#include "base/json.h"

namespace rose {
namespace {

// A whole number of 0 .. 2^40, `missing` if there is none; a missing one that must be there is -1.
Result<int64_t> Number(const JsonValue& object, const char* key, int64_t missing) {
  const JsonValue* value = object.Find(key);
  const auto number = value == nullptr ? std::optional(missing) : value->AsInteger();
  if (!number || *number < 0 || *number > int64_t{1} << 40) {
    return InvalidArgument("\"", key, "\" must be a whole number");
  }
  return *number;
}

std::string Text(const JsonValue& object, const char* key) {
  const JsonValue* value = object.Find(key);
  return value == nullptr || value->string() == nullptr ? "" : *value->string();
}

Status ReadGroups(const JsonValue& head, StepTable& table) {
  const JsonValue* groups = head.Find("groups");
  if (groups == nullptr || groups->array() == nullptr || groups->array()->empty()) {
    return InvalidArgument(
        "\"groups\" must list the KV groups: [{\"window\": 128, \"layers\": 12}, "
        "{\"window\": 0, \"layers\": 12}]");
  }
  for (const JsonValue& group : *groups->array()) {
    KvGroup& own = table.kv.groups.emplace_back();
    ROSE_ASSIGN_OR_RETURN(own.window, Number(group, "window", -1));
    ROSE_ASSIGN_OR_RETURN(const int64_t layers, Number(group, "layers", -1));
    if (layers < 1 || layers > 1000) return InvalidArgument("\"layers\" must be 1 to 1000");
    own.layers.resize(static_cast<size_t>(layers));
    std::iota(own.layers.begin(), own.layers.end(), 0);
  }
  return Status();
}

Status ReadHead(const JsonValue& head, StepTable& table) {
  table.model = Text(head, "model");
  table.machine = Text(head, "machine");
  ROSE_ASSIGN_OR_RETURN(table.vocab, Number(head, "vocab", 201'088));
  ROSE_ASSIGN_OR_RETURN(table.max_positions, Number(head, "max_positions", 131'072));
  ROSE_ASSIGN_OR_RETURN(table.kv.kv_heads, Number(head, "kv_heads", -1));
  ROSE_ASSIGN_OR_RETURN(table.kv.head_dim, Number(head, "head_dim", -1));
  const std::string dtype = Text(head, "kv_dtype");
  if (dtype != "bf16" && dtype != "f32") {
    return InvalidArgument("\"kv_dtype\" must be \"bf16\" or \"f32\"");
  }
  table.kv_dtype = dtype == "f32" ? DType::kF32 : DType::kBf16;
  if (table.vocab < 1 || table.max_positions < 1 || table.kv.kv_heads < 1 ||
      table.kv.head_dim < 1) {
    return InvalidArgument("vocab, max_positions, kv_heads and head_dim must be above 0");
  }
  if (const JsonValue* feeds_back = head.Find("feeds_back"); feeds_back != nullptr) {
    if (!feeds_back->boolean()) return InvalidArgument("\"feeds_back\" must be true or false");
    table.feeds_back = *feeds_back->boolean();
  }
  return ReadGroups(head, table);
}

Result<MeasuredStep> ReadStep(const JsonValue& line) {
  MeasuredStep step;
  StepShape& shape = step.shape;
  ROSE_ASSIGN_OR_RETURN(shape.decode_rows, Number(line, "decode_rows", 0));
  ROSE_ASSIGN_OR_RETURN(shape.prompt_rows, Number(line, "prompt_rows", 0));
  ROSE_ASSIGN_OR_RETURN(shape.sampled_rows, Number(line, "sampled_rows", shape.decode_rows));
  ROSE_ASSIGN_OR_RETURN(shape.decode_keys, Number(line, "decode_keys", 0));
  ROSE_ASSIGN_OR_RETURN(shape.prompt_keys, Number(line, "prompt_keys", 0));
  const JsonValue* ms = line.Find("ms");
  step.ms = ms == nullptr ? 0 : ms->AsDouble().value_or(0);
  if (!(step.ms > 0) || shape.decode_rows + shape.prompt_rows < 1) {
    return InvalidArgument("a step needs \"ms\" above 0, and \"decode_rows\" or \"prompt_rows\"");
  }
  return step;
}

}  // namespace

std::vector<int64_t> StepTable::PageBytes() const {
  std::vector<int64_t> bytes;
  for (size_t g = 0; g < kv.groups.size(); ++g) {
    bytes.push_back(kv.PageBytes(static_cast<int>(g), kv_dtype));
  }
  return bytes;
}

Result<StepTable> ParseStepTable(std::string_view jsonl) {
  StepTable table;
  for (int64_t number = 1; !jsonl.empty(); ++number) {
    const std::string_view text = jsonl.substr(0, jsonl.find('\n'));
    jsonl.remove_prefix(std::min(jsonl.size(), text.size() + 1));
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    const auto line = ParseJson(text);
    Status status = line.status();
    if (line.ok() && line->object() == nullptr) status = InvalidArgument("this is no JSON object");
    if (status.ok() && table.kv.groups.empty()) {
      status = ReadHead(*line, table);
    } else if (status.ok()) {
      const Result<MeasuredStep> step = ReadStep(*line);
      status = step.status();
      if (step.ok()) table.steps.push_back(*step);
    }
    if (!status.ok()) return InvalidArgument("line ", number, ": ", status.message());
  }
  if (table.steps.empty()) {
    return InvalidArgument("a table needs a line about the model and at least one measured step");
  }
  return table;
}

std::string StepTableHead(const StepTable& table) {
  std::string json = "{\"model\": ";
  AppendJsonString(json, table.model);
  AppendJsonString(json += ", \"machine\": ", table.machine);
  json += StrCat(", \"vocab\": ", table.vocab, ", \"max_positions\": ", table.max_positions,
                 ", \"kv_heads\": ", table.kv.kv_heads, ", \"head_dim\": ", table.kv.head_dim,
                 ", \"kv_dtype\": \"", table.kv_dtype == DType::kF32 ? "f32" : "bf16",
                 "\", \"feeds_back\": ", table.feeds_back ? "true" : "false", ", \"groups\": [");
  for (size_t g = 0; g < table.kv.groups.size(); ++g) {
    json += StrCat(g > 0 ? ", " : "", "{\"window\": ", table.kv.groups[g].window,
                   ", \"layers\": ", table.kv.groups[g].layers.size(), "}");
  }
  return json + "]}";
}

std::string StepLine(const MeasuredStep& step) {
  char ms[32];
  std::snprintf(ms, sizeof ms, "%.4f", step.ms);
  return StrCat("{\"decode_rows\": ", step.shape.decode_rows,
                ", \"prompt_rows\": ", step.shape.prompt_rows,
                ", \"sampled_rows\": ", step.shape.sampled_rows,
                ", \"decode_keys\": ", step.shape.decode_keys,
                ", \"prompt_keys\": ", step.shape.prompt_keys, ", \"ms\": ", ms, "}");
}

}  // namespace rose
