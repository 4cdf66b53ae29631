// Every endpoint that answers, and what a reply of any of them says.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "base/utf8.h"
#include "server/http_client.h"

namespace rose {

struct Endpoint {
  const char* path;
  // A request with a user's text and a function f, as JSON without its braces.
  const char* body;
  // The same with $ in every text that a client may send.
  const char* texts;
};

inline const Endpoint kEndpoints[] = {
    {"/v1/chat/completions",
     R"("messages":[{"role":"user","content":"hi"}],)"
     R"("tools":[{"type":"function","function":{"name":"f"}}])",
     R"("messages":[{"role":"system","content":"$"},{"role":"user","content":[{"type":"text",)"
     R"("text":"$"}],"name":"$"},{"role":"assistant","reasoning":"$","content":"$","tool_calls":)"
     R"([{"id":"$","type":"function","function":{"name":"f","arguments":"$"}}]},{"role":"tool",)"
     R"("tool_call_id":"$","content":"$"},{"role":"developer","content":"$"},{"role":"assistant",)"
     R"("content":[{"type":"refusal","refusal":"$"}]},{"role":"user","content":"$"}],"tools":)"
     R"([{"type":"function","function":{"name":"f","description":"$","parameters":{"type":"object",)"
     R"("title":"$","description":"$","properties":{"$":{"type":"string","enum":["$"],"default":"$",)"
     R"("description":"$","title":"$","examples":["$"]}}}}}],"stop":"$","user":"$",)"
     R"("metadata":{"$":"$"})"},
    {"/v1/messages",
     R"("max_tokens":1000,"thinking":{"type":"enabled","budget_tokens":1024},"messages":)"
     R"([{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}])",
     R"("max_tokens":1000,"system":[{"type":"text","text":"$"}],"messages":[{"role":"user",)"
     R"("content":[{"type":"text","text":"$"}]},{"role":"assistant","content":[{"type":"thinking",)"
     R"("thinking":"$","signature":"$"},{"type":"text","text":"$"},{"type":"tool_use","id":"$",)"
     R"("name":"f","input":{"$":"$"}}]},{"role":"user","content":[{"type":"tool_result",)"
     R"("tool_use_id":"$","content":[{"type":"text","text":"$"}]},{"type":"text","text":"$"}]}],)"
     R"("tools":[{"name":"f","description":"$","input_schema":{"type":"object","properties":{"$":)"
     R"({"type":"string","enum":["$"],"default":"$","description":"$"}}}}],"stop_sequences":["$"],)"
     R"("metadata":{"user_id":"$"})"},
    {"/v1/responses",
     R"("input":"hi","store":false,"tools":[{"type":"function","name":"f","parameters":)"
     R"({"type":"object"}}])",
     R"("instructions":"$","store":false,"input":[{"type":"message","role":"system","content":"$"},)"
     R"({"role":"user","content":[{"type":"input_text","text":"$"}]},{"type":"reasoning","id":"$",)"
     R"("summary":[],"content":[{"type":"reasoning_text","text":"$"}]},{"type":"function_call",)"
     R"("call_id":"$","name":"f","arguments":"$"},{"type":"function_call_output","call_id":"$",)"
     R"("output":"$"},{"type":"message","role":"assistant","content":[{"type":"output_text",)"
     R"("text":"$"}]},{"role":"user","content":"$"}],"tools":[{"type":"function","name":"f",)"
     R"("description":"$","parameters":{"type":"object","properties":{"$":{"type":"string",)"
     R"("enum":["$"],"default":"$","description":"$"}}}}],"metadata":{"$":"$"},"user":"$")"}};

// Raw text, without a chat format: some of the kinds concern it too.
inline const Endpoint kCompletions = {"/v1/completions", R"("prompt":"hi","max_tokens":100)",
                                      nullptr};

// What a reply says, by what it is; of a stream, the pieces joined.
struct Said {
  std::string content, thoughts, arguments, names;
  bool done = false;  // a stream's end was there
};

inline void Collect(const JsonValue& json, const std::string& type, Said& said) {
  if (const auto* items = json.array())
    for (const JsonValue& item : *items) Collect(item, type, said);
  if (!json.object()) return;
  const JsonValue* own = json.Find("type");
  const std::string here = own && own->string() ? *own->string() : type;
  const bool is_thought = here.find("reason") != here.npos || here.find("thinking") != here.npos;
  for (const auto& [key, value] : *json.object()) {
    const std::string* text = value.string();
    if (key == "input" && value.object()) {
      // What was no JSON is wrapped.
      const JsonValue* bare = value.Find("INVALID_JSON");
      said.arguments += bare ? *bare->string() : WriteJson(value);
    } else if (!text) {
      Collect(value, here, said);
    } else if (key == "name") {
      said.names += *text;
    } else if (key == "arguments" || key == "partial_json" ||
               (key == "delta" && here.find("arguments") != here.npos)) {
      said.arguments += *text;
    } else if (key == "reasoning" || key == "thinking" ||
               (is_thought && (key == "text" || key == "delta"))) {
      said.thoughts += *text;
    } else if (key == "content" || key == "text" || key == "delta") {
      said.content += *text;
    }
  }
}

inline Said WhatIsSaid(const HttpReply& reply, bool stream) {
  Said said;
  EXPECT_TRUE(IsValidUtf8(reply.body));
  const auto add = [&](std::string_view data) {
    if (data == "[DONE]") {
      said.done = true;
      return;
    }
    const auto json = ParseJson(data);
    ASSERT_TRUE(json.ok()) << data;
    Collect(*json, "", said);
  };
  if (stream) {
    SseReader().Push(reply.body, add);
  } else {
    add(reply.body);
  }
  return said;
}

}  // namespace rose
