#include "capture/collect/watched.hpp"

#include <algorithm>
#include <cstdio>

#include "base/count.hpp"
#include "base/text.hpp"
#include "capture/collect/process.hpp"
#include "model/coverage.hpp"

namespace tracesmith::capture {
namespace {

std::string percent(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

std::optional<Watched> watchedIn(const ring::RingHeader& h) {
  if (h.mode.load() != ring::kWatch || h.cuda_state.load() != 1) return {};
  Watched w{h.window_steps.load(), h.window_every.load(), h.window_asked.load(), {}, {}};
  if (const uint32_t ppm = h.budget_ppm.load()) w.budget_percent = ppm / 1e4;
  if (const uint32_t ppm = h.cost_ppm.load(); ppm != ring::kNoCost) w.cost_percent = ppm / 1e4;
  return w;
}

void merge(std::optional<Watched>& all, const Watched& one) {
  const std::optional<double> cost = all ? std::max(all->cost_percent, one.cost_percent) : one.cost_percent;
  if (!all || one.window_every > all->window_every) all = one;
  all->cost_percent = cost;
}

std::string sentenceOf(const Watched& w) {
  std::string text =
      "the GPU is recorded in " + std::to_string(w.window_steps) + " of every " + counted(w.window_every, "step");
  const std::string budget = w.budget_percent ? "the budget of " + percent("%g %%", *w.budget_percent) : "";
  if (w.window_every > w.window_asked && w.window_asked > 0)
    text += " (" + std::to_string(w.window_asked) + " at first, doubled to keep to " + budget + ")";
  if (!w.cost_percent)
    return text + "; what it costs is not known: too few steps were marked" +
           (budget.empty() ? "" : ", so " + budget + " has had no effect");
  text += "; it costs " + percent("%.2f %%", *w.cost_percent) + " of the job's time";
  if (budget.empty() || w.window_every > w.window_asked) return text;
  return text + (*w.cost_percent > *w.budget_percent ? ", more than " : ", within ") + budget;
}

std::string jsonOf(const Watched& watched) {
  std::string text;
  JsonWriter w(text);
  auto optional = [&](const char* key, std::optional<double> v) { v ? w.field(key, *v) : w.key(key).null(); };
  w.beginObject().field("window_steps", static_cast<uint64_t>(watched.window_steps));
  w.field("window_every", static_cast<uint64_t>(watched.window_every));
  w.field("window_asked", static_cast<uint64_t>(watched.window_asked));
  optional("budget_percent", watched.budget_percent);
  optional("cost_percent", watched.cost_percent);
  w.endObject();
  return text;
}

void Collector::watchRow(Process& p) {
  const std::optional<Watched> watched = p.ring->cut() ? std::nullopt : watchedIn(p.ring->header());
  if (!watched || p.watched == watched) return;
  p.watched = watched;
  trace::MetadataRow row;
  row.node = p.node;
  row.rank = p.rank();
  row.key = writer_.string(model::kWatchKey);
  row.value = out_->text(jsonOf(*watched));
  append(row);
}

}  // namespace tracesmith::capture
