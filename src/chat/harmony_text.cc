#include "chat/harmony_text.h"

#include <vector>

#include "chat/harmony_schema.h"

namespace rose {
namespace {

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

// Every line with `prefix` and a line end. Lines end at \n; a \r before it and an empty rest go.
std::string PrefixLines(std::string_view text, std::string_view prefix) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    if (end != text.npos && line.ends_with('\r')) line.remove_suffix(1);
    out += prefix;
    out += line;
    out += '\n';
  }
  return out;
}

Result<std::string> NamespaceText(const HarmonyNamespace& space) {
  std::string out = "## " + space.name + "\n";
  std::string description =
      PrefixLines(space.description.value_or(""), space.tools.empty() ? "" : "// ");
  if (space.tools.empty()) {
    if (description.empty()) return out;
    description.pop_back();
    return out + "\n" + description;
  }
  out += "\n" + description;
  out += "namespace " + space.name + " {\n\n";
  for (const HarmonyTool& tool : space.tools) {
    out += PrefixLines(tool.description, "// ");
    out += "type " + tool.name + " = (";
    if (tool.parameters && !tool.parameters->is_null()) {
      ROSE_ASSIGN_OR_RETURN(const std::string type, SchemaToType(*tool.parameters));
      out += "_: " + type;
    }
    out += ") => any;\n\n";
  }
  return out + "} // namespace " + space.name;
}

Result<std::string> ToolsText(const HarmonyTools& tools) {
  std::vector<std::string> parts = {"# Tools"};
  for (const auto& [key, space] : tools) {
    ROSE_ASSIGN_OR_RETURN(std::string text, NamespaceText(space));
    parts.push_back(std::move(text));
  }
  return Join(parts, "\n\n");
}

// Shown to the model, which was trained on this form; what it writes is not bound by it.
std::string ResponseFormatText(const ResponseFormat& format) {
  std::string out = "# Response Formats\n\n## " + format.name + "\n\n";
  out += PrefixLines(format.description, "// ");
  return out + format.schema_json;
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kDeveloper:
      return "developer";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  ROSE_CHECK(false, "role ", static_cast<int>(role));
}

Result<std::string> SystemText(const HarmonySystem& system, bool has_functions) {
  std::vector<std::string> sections, lines;
  if (system.identity) lines.push_back(*system.identity);
  if (system.knowledge_cutoff) lines.push_back("Knowledge cutoff: " + *system.knowledge_cutoff);
  if (system.date) lines.push_back("Current date: " + *system.date);
  if (!lines.empty()) sections.push_back(Join(lines, "\n"));
  if (system.effort) sections.push_back("Reasoning: " + std::string(EffortName(*system.effort)));
  if (system.tools && !system.tools->empty()) {
    ROSE_ASSIGN_OR_RETURN(std::string text, ToolsText(*system.tools));
    sections.push_back(std::move(text));
  }
  if (system.channels && !system.channels->valid.empty()) {
    std::string text = "# Valid channels: " + Join(system.channels->valid, ", ") + ".";
    if (system.channels->required) text += " Channel must be included for every message.";
    if (has_functions)
      text += "\nCalls to these tools must go to the commentary channel: 'functions'.";
    sections.push_back(std::move(text));
  }
  return Join(sections, "\n\n");
}

Result<std::string> DeveloperText(const HarmonyDeveloper& developer) {
  std::vector<std::string> sections;
  if (developer.instructions) {
    sections.push_back("# Instructions");
    sections.push_back(*developer.instructions);
  }
  if (developer.tools && !developer.tools->empty()) {
    ROSE_ASSIGN_OR_RETURN(std::string text, ToolsText(*developer.tools));
    sections.push_back(std::move(text));
  }
  if (developer.response_format) sections.push_back(ResponseFormatText(*developer.response_format));
  return Join(sections, "\n\n");
}

}  // namespace rose
