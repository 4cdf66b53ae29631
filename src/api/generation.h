// What the endpoints that generate have in common: the fields of a request (spec E.3) that decide
// what is drawn and when it ends, read once for all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/context.h"
#include "api/field_reader.h"
#include "chat/chat_format.h"
#include "grammar/grammar.h"
#include "request/request.h"

namespace rose {

// What the content of an answer must be.
struct AnswerForm {
  GrammarSource source;
  std::string field;  // that asks for it, for errors
};

// A conversation to be continued, once or more, and how what is drawn becomes an answer.
struct Generation {
  std::string id;     // of the answer: "chatcmpl-..."
  std::string model;  // as the request names it, else the default
  int64_t created = 0;
  ChatRequest chat;  // what was rendered
  Request request;   // without on_event
  int64_t choices = 1;
  bool stream = false;
  bool include_usage = false;     // a stream's last chunk is the usage
  bool continuous_usage = false;  // usage on every chunk
  bool return_token_ids = false;  // of prompt and answer
  bool tokens_as_ids = false;     // logprobs name a token "token_id:17"
  std::string echo;               // what the content begins with: the message that is continued
  bool include_reasoning = true;
  bool calls_allowed = false;         // tools are declared and tool_choice is not "none"
  bool call_required = false;         // tool_choice "required"
  std::string only_call;              // the function that tool_choice names; empty = none
  std::vector<std::string> callable;  // functions that may be called; empty = all
  bool only_one_call = false;         // parallel_tool_calls: false, or tool_choice names a function
  bool include_stop = false;          // the answer shows the stop string that ended it
  std::vector<std::string> stop;      // stop strings, none empty
  std::optional<AnswerForm> form;
  int64_t thinking_budget = -1;  // tokens of thoughts; -1 = no limit of their own
  // Makes a choice's constraint (Constrain in output_form.h); empty = none.
  std::function<std::shared_ptr<TokenConstraint>()> new_constraint;

  // The engine request of choice `index`: with a seed each choice gets its own, derived from it.
  Request RequestOf(int64_t index) const;
  std::vector<Request> Requests() const;
  // Drops what only rendering and submitting need: an answer may live for minutes.
  void ForgetPrompt();
};

// What the client of a request is told that the engine ended with kError or kCancelled. A 400 if
// the form that it asked for cannot be kept up, else our fault.
std::optional<ApiError> FailureOf(const TokenEvent& event);

// Each reads the fields that its name says, under the names of the OpenAI API and of vLLM; failures
// go to `fields`. Unknown fields are ignored.

// Fields that would change the answer and are not offered: better refused than ignored. False and
// what is empty mean "off" and are fine.
void Refuse(FieldReader& fields, std::span<const char* const> names);
// `model`: absent is the default, an unknown name a 404.
void ReadModel(FieldReader& fields, const ApiContext& context, Generation& out);
// temperature, top_p, top_k, min_p, seed, the penalties, logit_bias.
void ReadSampling(FieldReader& fields, const ApiContext& context, SamplingParams& out);
// `n`, after the sampling.
void ReadChoices(FieldReader& fields, const ApiContext& context, Generation& out);
// Stop strings under `name` ("stop"), include_stop_str_in_output, stop_token_ids, ignore_eos.
void ReadStops(FieldReader& fields, const ApiContext& context, std::string_view name,
               Generation& out);
// `stream`, and `stream_options` for it.
void ReadStream(FieldReader& fields, Generation& out);
// A word for the reasoning effort that was given as field `path`. "none" and "minimal" are for
// formats that can leave thoughts out.
void SetEffort(FieldReader& fields, const ApiContext& context, const std::string& path,
               std::string_view effort, ChatRequest& out);
// The day that the system message names.
std::string DateOf(const ApiContext& context, int64_t now);

// The 400 with code "context_length_exceeded": `used` tokens are in the prompt, whose field is
// `input`, and field `name` asks for `wanted` more.
ApiError ContextError(const ApiContext& context, std::string_view name, std::string_view input,
                      int64_t used, int64_t wanted);
// Renders out.chat and reads the limits, which depend on the prompt's length: the most tokens to
// generate under `name`, absent = all that fit, and min_tokens. `input` names the messages' field,
// for the 400 with code "context_length_exceeded".
void ReadPromptAndLimits(FieldReader& fields, const ApiContext& context, std::string_view name,
                         std::string_view input, Generation& out);
// The same for a prompt that is there already (out.request.prompt).
void ReadLimits(FieldReader& fields, const ApiContext& context, std::string_view name,
                std::string_view input, Generation& out);

}  // namespace rose
