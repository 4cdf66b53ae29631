#include "chat/harmony_builtin.h"

#include "base/json.h"

namespace rose {
namespace {

// The text that the model was trained with (spec D.7), as JSON, which has names for what is not
// ASCII.
constexpr char kBrowser[] =
    R"({"name":"browser","description":"Tool for browsing.\nThe `cursor` appears in brackets )"
    R"(before each browsing display: `[{cursor}]`.\nCite information from the tool using )"
    R"(the following format:\n`\u3010{cursor}\u2020L{line_start}(-L{line_end})?\u3011`, )"
    R"(for example: `\u30106\u2020L9-L11\u3011` or `\u30108\u2020L3\u3011`.\nDo not quote )"
    R"x(more than 10 words directly from the tool output.\nsources=web (default: web)","tools":[)x"
    R"({"name":"search","description":"Searches for information related to `query` and )"
    R"(displays `topn` results.","parameters":{"type":"object","properties":{"query":{"type":"s)"
    R"(tring"},"topn":{"type":"number","default":10},"source":{"type":"string"}},"required":["q)"
    R"(uery"]}},{"name":"open","description":"Opens the link `id` from the page indicated )"
    R"(by `cursor` starting at line number `loc`, showing `num_lines` lines.\nValid link )"
    R"(ids are displayed with the formatting: `\u3010{id}\u2020.*\u3011`.\nIf `cursor` )"
    R"(is not provided, the most recent page is implied.\nIf `id` is a string, it is treated )"
    R"(as a fully qualified URL associated with `source`.\nIf `loc` is not provided, the )"
    R"(viewport will be positioned at the beginning of the document or centered on the )"
    R"(most relevant passage, if available.\nUse this function without `id` to scroll to )"
    R"(a new location of an opened page.","parameters":{"type":"object","properties":{"id":{"ty)"
    R"(pe":["number","string"],"default":-1},"cursor":{"type":"number","default":-1},"loc":{"ty)"
    R"(pe":"number","default":-1},"num_lines":{"type":"number","default":-1},"view_source":{"ty)"
    R"(pe":"boolean","default":false},"source":{"type":"string"}}}},{"name":"find","description)"
    R"(":"Finds exact matches of `pattern` in the current page, or the page given by `cursor`.")"
    R"(,"parameters":{"type":"object","properties":{"pattern":{"type":"string"},"cursor":{"type)"
    R"(":"number","default":-1}},"required":["pattern"]}}]})";

constexpr char kPython[] =
    R"({"name":"python","description":"Use this tool to execute Python code in your chain )"
    R"(of thought. The code will not be shown to the user. This tool should be used for )"
    R"(internal reasoning, but not for code that is intended to be visible to the user )"
    R"((e.g. when creating plots, tables, or files).\n\nWhen you send a message containing )"
    R"(Python code to python, it will be executed in a stateful Jupyter notebook environment. )"
    R"(python will respond with the output of the execution or time out after 120.0 seconds. )"
    R"(The drive at '/mnt/data' can be used to save and persist user files. Internet access )"
    R"(for this session is UNKNOWN. Depends on the cluster.","tools":[]})";

std::string TextOf(const JsonValue& object, std::string_view key) {
  return *object.Find(key)->string();
}

}  // namespace

std::optional<HarmonyNamespace> BuiltinTool(std::string_view name) {
  if (name != "browser" && name != "python") return std::nullopt;
  const JsonValue json = ParseJson(name == "browser" ? kBrowser : kPython).value();
  HarmonyNamespace space{TextOf(json, "name"), TextOf(json, "description"), {}};
  for (const JsonValue& tool : *json.Find("tools")->array()) {
    space.tools.push_back(
        {TextOf(tool, "name"), TextOf(tool, "description"), *tool.Find("parameters")});
  }
  return space;
}

}  // namespace rose
