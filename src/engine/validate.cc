#include "engine/validate.h"

#include <algorithm>
#include <cmath>

#include "scheduler/scheduler.h"

namespace rose {
namespace {

bool InVocab(int32_t id, int64_t vocab) {
  return id >= 0 && id < vocab;
}

Status CheckIds(const char* field, std::span<const int32_t> ids, int64_t vocab) {
  for (int32_t id : ids) {
    if (!InVocab(id, vocab)) {
      return InvalidArgument(field, " has token id ", id, ", outside the vocabulary of ", vocab);
    }
  }
  return Status();
}

// Lists of ids that say what may be drawn or shown.
Status CheckIdLists(const SamplingParams& p, int64_t vocab) {
  for (const auto& [id, bias] : p.logit_bias) {
    ROSE_RETURN_IF_ERROR(CheckIds("logit_bias", {&id, 1}, vocab));
    if (!std::isfinite(bias)) {
      return InvalidArgument("logit_bias of token id ", id, " must be a finite number");
    }
  }
  ROSE_RETURN_IF_ERROR(CheckIds("allowed_token_ids", p.allowed_ids, vocab));
  ROSE_RETURN_IF_ERROR(CheckIds("logprob_token_ids", p.logprob_ids, vocab));
  for (const std::vector<int32_t>& word : p.bad_words) {
    if (word.empty()) return InvalidArgument("bad_words has a word without a token");
    ROSE_RETURN_IF_ERROR(CheckIds("bad_words", word, vocab));
  }
  return Status();
}

Status CheckSampling(const SamplingParams& p, int64_t vocab) {
  if (!(p.temperature >= 0) || !std::isfinite(p.temperature)) {
    return InvalidArgument("temperature must be a number >= 0, not ", p.temperature);
  }
  if (!(p.top_p > 0 && p.top_p <= 1)) {
    return InvalidArgument("top_p must be above 0 and at most 1, not ", p.top_p);
  }
  if (p.top_k < 0) return InvalidArgument("top_k must be >= 0 (0 = off), not ", p.top_k);
  if (!(p.min_p >= 0 && p.min_p <= 1)) {
    return InvalidArgument("min_p must be between 0 and 1, not ", p.min_p);
  }
  if (!std::isfinite(p.presence_penalty) || !std::isfinite(p.frequency_penalty)) {
    return InvalidArgument("presence_penalty and frequency_penalty must be finite numbers");
  }
  if (!(p.repetition_penalty > 0) || !std::isfinite(p.repetition_penalty)) {
    return InvalidArgument("repetition_penalty must be above 0, not ", p.repetition_penalty);
  }
  if (p.logprobs < -1 || p.logprobs > vocab) {
    return InvalidArgument("logprobs must be -1 (none) or between 0 and the vocabulary's ", vocab,
                           ", not ", p.logprobs);
  }
  return CheckIdLists(p, vocab);
}

// Some token must be left for the first draw.
Status CheckDrawable(const Request& request, int64_t vocab) {
  const SamplingParams& p = request.sampling;
  std::vector<bool> left(vocab, p.allowed_ids.empty());
  for (int32_t id : p.allowed_ids) left[id] = true;
  for (const std::vector<int32_t>& word : p.bad_words) {
    if (word.size() == 1) left[word[0]] = false;
  }
  if (std::find(left.begin(), left.end(), true) == left.end()) {
    return InvalidArgument("bad_words and allowed_token_ids leave no token to draw");
  }
  for (int32_t id : request.stop_ids) left[id] = false;
  if (request.min_tokens > 0 && std::find(left.begin(), left.end(), true) == left.end()) {
    return InvalidArgument(
        "min_tokens forbids all stop ids, and every token that may be drawn is one");
  }
  return Status();
}

Status CheckStopIds(const Request& request, int64_t vocab) {
  for (int32_t id : request.stop_ids) {
    if (!InVocab(id, vocab)) {
      return InvalidArgument("stop id ", id, " is outside the vocabulary of ", vocab);
    }
  }
  return Status();
}

}  // namespace

Status CheckRequest(const Request& request, const RequestLimits& limits) {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0) return InvalidArgument("the prompt must have at least one token");
  if (request.max_tokens < 1) {
    return InvalidArgument("max_tokens must be at least 1, not ", request.max_tokens);
  }
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return InvalidArgument("min_tokens must be between 0 and max_tokens (", request.max_tokens,
                           "), not ", request.min_tokens);
  }
  // Compared apart: the sum of two large numbers may overflow.
  if (prompt > limits.max_context || request.max_tokens > limits.max_context - prompt) {
    return InvalidArgument("the prompt has ", prompt, " tokens and max_tokens is ",
                           request.max_tokens, ", together more than the context length of ",
                           limits.max_context, " tokens; shorten the prompt or lower max_tokens");
  }
  for (int32_t id : request.prompt) {
    if (!InVocab(id, limits.vocab)) {
      return InvalidArgument("the prompt has token id ", id, ", outside the vocabulary of ",
                             limits.vocab);
    }
  }
  ROSE_RETURN_IF_ERROR(CheckStopIds(request, limits.vocab));
  ROSE_RETURN_IF_ERROR(CheckSampling(request.sampling, limits.vocab));
  const SamplingParams& sampling = request.sampling;
  if (request.min_tokens > 0 || !sampling.allowed_ids.empty() || !sampling.bad_words.empty()) {
    ROSE_RETURN_IF_ERROR(CheckDrawable(request, limits.vocab));
  }
  if (request.prompt_logprobs < -1 || request.prompt_logprobs > limits.vocab) {
    return InvalidArgument("prompt_logprobs must be -1 (none) or between 0 and the vocabulary's ",
                           limits.vocab, ", not ", request.prompt_logprobs);
  }
  // The last token drawn is never computed.
  const int64_t positions = prompt + request.max_tokens - 1;
  if (!CanEverFit(limits.groups, limits.page_size, positions)) {
    return InvalidArgument("prompt and answer of ", positions + 1,
                           " tokens do not fit into the KV cache; shorten the prompt, lower "
                           "max_tokens, or start the server with more memory");
  }
  return Status();
}

int64_t LargestContext(const RequestLimits& limits, int64_t max_positions) {
  // CanEverFit(n) is monotone in n: bisect for the largest n in [0, max_positions].
  int64_t fits = 0, too_long = max_positions + 1;
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    (CanEverFit(limits.groups, limits.page_size, middle) ? fits : too_long) = middle;
  }
  return fits;
}

}  // namespace rose
