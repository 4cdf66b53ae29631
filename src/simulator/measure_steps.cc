#include "simulator/measure_steps.h"

#include <algorithm>
#include <chrono>
#include <list>

#include "base/check.h"
#include "simulator/virtual_executor.h"

namespace rose {
namespace {

using Clock = std::chrono::steady_clock;

// One sequence of a step, and what its plan points to.
struct Row {
  SeqPages pages;
  std::vector<int32_t> tokens;
  std::vector<std::span<const int32_t>> tables;
};

class StepMeter {
 public:
  StepMeter(Executor& executor, int64_t context)
      : executor_(executor), kv_(GroupsOf(executor), KvLayout::kPageSize) {
    master_.pages = kv_.NewSequence();
    for (int64_t i = 0; i < context; ++i) master_.tokens.push_back(Token(0, i));
    // Everything is computed once and copied to the others: pages that hold nothing would be read
    // faster, or slower, than real ones.
    constexpr int64_t kChunk = 256;
    for (int64_t at = 0; at < context; at += kChunk) {
      StepPlan plan;
      Add(plan, master_, at, std::min(kChunk, context - at), /*samples=*/0);
      Run(plan);
    }
  }

  MeasuredStep Measure(const StepRecipe& recipe, int64_t repeats) {
    StepPlan plan;
    std::list<Row> rows;
    for (int64_t i = 0; i < recipe.decodes; ++i) {
      AddCopy(plan, rows, recipe.context, 1, /*samples=*/1);
    }
    // Half of all chunks are the last of their prompt, but this is one row of many.
    if (recipe.prompt_rows > 0) {
      AddCopy(plan, rows, recipe.prompt_start, recipe.prompt_rows, /*samples=*/0);
    }
    Run(plan);
    plan.copies.clear();
    std::vector<double> times;
    for (int64_t i = 0; i < repeats; ++i) times.push_back(Run(plan));
    std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
    for (Row& row : rows) kv_.Release(row.pages);
    return {.shape = ShapeOf(plan), .ms = times[times.size() / 2]};
  }

 private:
  static std::vector<PageGroup> GroupsOf(const Executor& executor) {
    std::vector<PageGroup> groups;
    for (size_t g = 0; g < executor.info().pages.size(); ++g) {
      groups.push_back({executor.info().kv.groups[g].window, executor.info().pages[g]});
    }
    return groups;
  }

  int32_t Token(uint64_t text, int64_t i) const {
    return MadeUpToken(text, i, executor_.info().vocab);
  }

  // A sequence that begins like the master and goes on with tokens of its own.
  void AddCopy(StepPlan& plan, std::list<Row>& rows, int64_t start, int64_t count,
               int64_t samples) {
    ROSE_CHECK_LE(start, std::ssize(master_.tokens));
    Row& row = rows.emplace_back();
    row.pages = kv_.NewSequence();
    row.tokens.assign(master_.tokens.begin(), master_.tokens.begin() + start);
    for (int64_t i = 0; i < count; ++i) row.tokens.push_back(Token(rows.size(), i));
    kv_.Cover(row.pages, start);
    kv_.Slide(row.pages, start);
    for (size_t g = 0; g < row.pages.tables.size(); ++g) {
      const std::vector<int32_t>& table = row.pages.tables[g];
      for (size_t i = 0; i < table.size(); ++i) {
        if (table[i] == kNoPage) continue;
        plan.copies.within.push_back(
            {static_cast<int64_t>(g), master_.pages.tables[g][i], table[i]});
      }
    }
    Add(plan, row, start, count, samples);
  }

  void Add(StepPlan& plan, Row& row, int64_t start, int64_t count, int64_t samples) {
    kv_.Cover(row.pages, start + count);
    row.tables.clear();
    for (const auto& table : row.pages.tables) row.tables.emplace_back(table);
    SeqPlan seq;
    seq.id = plan.seqs.size() + 1;
    seq.start = start;
    seq.history = std::span(row.tokens).first(start + count);
    seq.tokens = seq.history.subspan(start);
    seq.pages = row.tables;
    seq.samples = samples;
    seq.sampling = &sampling_;
    seq.prompt_tokens = start + count;
    plan.seqs.push_back(seq);
  }

  double Run(const StepPlan& plan) {
    const Clock::time_point begin = Clock::now();
    executor_.Submit(plan);
    const StepResult result = executor_.Wait();
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    for (const SeqResult& seq : result.seqs) ROSE_CHECK(seq.error.empty(), seq.error);
    return took.count();
  }

  Executor& executor_;
  KvPages kv_;
  Row master_;
  const SamplingParams sampling_;
};

}  // namespace

std::vector<StepRecipe> StepRecipes(int64_t most_decodes, int64_t most_rows, int64_t context) {
  std::vector<StepRecipe> recipes;
  const auto add = [&](StepRecipe recipe) {
    if (recipe.decodes > most_decodes || recipe.decodes + recipe.prompt_rows > most_rows) return;
    if (recipe.prompt_start + recipe.prompt_rows > context || recipe.context > context) return;
    recipes.push_back(recipe);
  };
  for (int64_t decodes = 1; decodes <= most_decodes; decodes *= 2) {
    for (int64_t before : {64, 256, 1024, 4096}) add({.decodes = decodes, .context = before});
  }
  for (int64_t rows = 2; rows <= most_rows; rows *= 2) {
    for (int64_t start : {0, 512, 2048}) add({.prompt_rows = rows, .prompt_start = start});
  }
  for (int64_t decodes : {4, 16, 64, 256}) {
    for (int64_t rows : {16, 128, 512, 2048}) {
      rows = std::min(rows, most_rows - decodes);
      if (rows < 1) continue;
      add({.decodes = decodes, .context = 256, .prompt_rows = rows, .prompt_start = 0});
    }
  }
  return recipes;
}

std::vector<int64_t> PagesForRecipes(const KvLayout& kv, const std::vector<StepRecipe>& recipes) {
  constexpr int64_t kSlack = 2;  // pages begun and not full
  const auto pages = [](int64_t tokens) { return tokens / KvLayout::kPageSize + kSlack; };
  int64_t context = 0;
  for (const StepRecipe& recipe : recipes) {
    context = std::max({context, recipe.context, recipe.prompt_start + recipe.prompt_rows});
  }
  std::vector<int64_t> result;
  for (const KvGroup& group : kv.groups) {
    int64_t most = 0;
    for (const StepRecipe& recipe : recipes) {
      const int64_t reached =
          group.window > 0 ? std::min(recipe.context, group.window) : recipe.context;
      most = std::max(most, recipe.decodes * (pages(reached) + 1));
    }
    // The master, and a copy that has not slid yet.
    result.push_back(most + 2 * pages(context));
  }
  return result;
}

std::vector<MeasuredStep> MeasureSteps(Executor& executor, const std::vector<StepRecipe>& recipes,
                                       int64_t repeats,
                                       const std::function<void(int64_t)>& on_progress) {
  int64_t context = 0;
  for (const StepRecipe& recipe : recipes) {
    context = std::max({context, recipe.context, recipe.prompt_start});
  }
  StepMeter meter(executor, context);
  std::vector<MeasuredStep> steps;
  for (const StepRecipe& recipe : recipes) {
    steps.push_back(meter.Measure(recipe, repeats));
    on_progress(std::ssize(steps));
  }
  return steps;
}

}  // namespace rose
