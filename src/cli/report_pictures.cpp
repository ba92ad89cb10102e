#include "cli/report_pictures.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "base/statistics.hpp"
#include "base/text.hpp"

namespace tracesmith::cli {
namespace {

using namespace analysis;
using trace::kNull;

constexpr double kWidth = 960, kLeft = 90;  // of a picture, and of its labels

[[gnu::format(printf, 1, 2)]] std::string format(const char* text, ...) {
  char buffer[512];
  va_list args;
  va_start(args, text);
  std::vsnprintf(buffer, sizeof buffer, text, args);
  va_end(args);
  return buffer;
}

std::string open(double width, double height, const char* label) {
  return format("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"%s\">", width, height, label);
}
std::string label(double x, double y, const std::string& text, const char* anchor, const char* style = "") {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, style) +
         escapedMarkup(text) + "</text>";
}
std::string rect(double x, double y, double w, double h, const char* style, double opacity, const std::string& title) {
  std::string out = format("<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"%s\"", x, y,
                           std::max(w, 0.3), h, style);
  if (opacity < 1) out += format(" fill-opacity=\"%.2f\"", opacity);
  return out + (title.empty() ? "/>" : "><title>" + escapedMarkup(title) + "</title></rect>");
}
std::string rankName(int64_t rank) { return rank == kNull ? "process" : "rank " + std::to_string(rank); }

/// A time axis below the picture: three to six round marks.
std::string axis(double length_us, double y, double height) {
  if (length_us <= 0) return "";
  double step = std::pow(10, std::floor(std::log10(length_us)));
  while (length_us / step < 3) step /= 2;
  std::string out;
  for (double t = 0; t <= length_us * 1.0001; t += step) {
    const double x = kLeft + t / length_us * (kWidth - kLeft - 10);
    out += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>", x, x, y - height, y);
    out += label(x, y + 14, t == 0 ? "0" : humanNs(t * 1000), "middle", "small");
  }
  return out;
}

/// At most `most` numbers, those in `keep` among them, in order.
std::vector<int64_t> thinOut(const std::set<int64_t>& all, const std::set<int64_t>& keep, size_t most) {
  if (all.size() <= most) return {all.begin(), all.end()};
  std::set<int64_t> some;
  for (int64_t k : keep)
    if (all.contains(k) && some.size() < most / 2) some.insert(k);
  const std::vector<int64_t> list(all.begin(), all.end());
  for (size_t i = 0; some.size() < most && i < most; ++i) some.insert(list[i * list.size() / most]);
  return {some.begin(), some.end()};
}

std::set<int64_t> blamed(const Analysis& a) {
  std::set<int64_t> out;
  for (const Blame& b : a.blame)
    if (b.significant) out.insert(b.rank);
  return out;
}

std::string legend(const std::vector<std::pair<const char*, const char*>>& items, double y) {
  std::string out;
  double x = kLeft;
  for (const auto& [style, text] : items) {
    out += rect(x, y, 11, 11, style, 1, "");
    out += label(x + 16, y + 10, text, "start", "small");
    x += 34 + 6.6 * static_cast<double>(std::string_view(text).size());
  }
  return out;
}

}  // namespace

std::string timelinePicture(const Excerpt& e) {
  constexpr double kLane = 22;
  const double body = kLane * static_cast<double>(e.lanes.size()), scale = (kWidth - kLeft - 10) / e.length_us;
  std::string out = open(kWidth, body + 52, "timeline of the worst collective");
  out += axis(e.length_us, body + 6, body + 6);
  auto x = [&](double us) { return kLeft + us * scale; };
  for (size_t i = 0; i < e.lanes.size(); ++i) {
    const Excerpt::Lane& lane = e.lanes[i];
    const double y = kLane * static_cast<double>(i) + 4;
    const bool culprit = lane.rank == e.culprit_rank;
    out += label(kLeft - 8, y + 13, rankName(lane.rank), "end", culprit ? "strong" : "");
    for (const Excerpt::Bar& b : lane.bars) {
      static constexpr const char* kStyles[] = {"compute", "hidden", "data", "exposed"};
      // Communication runs beside computation: it gets the lower half of the lane.
      const bool low = b.kind == Excerpt::Bar::communication || b.kind == Excerpt::Bar::this_one;
      const double top = low ? y + 9 : y, height = b.kind == Excerpt::Bar::copy ? 4 : 8;
      const std::string name = b.name.size() > 90 ? b.name.substr(0, 90) + "…" : b.name;
      out += rect(x(b.from_us), top, (b.to_us - b.from_us) * scale, height, kStyles[b.kind], 1,
                  name + ", " + humanNs((b.to_us - b.from_us) * 1000));
      if (b.kind == Excerpt::Bar::this_one && e.last_arrival_us > b.from_us)
        out += rect(x(b.from_us), top, (std::min(e.last_arrival_us, b.to_us) - b.from_us) * scale, height, "wait", 1,
                    "waits " + humanNs((e.last_arrival_us - b.from_us) * 1000));
    }
  }
  out += format("<line x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%.1f\" class=\"mark\"/>", x(e.last_arrival_us),
                x(e.last_arrival_us), body + 6);
  out += legend({{"compute", "computation"},
                 {"wait", "waits in this collective"},
                 {"exposed", "its transfer"},
                 {"hidden", "other communication"},
                 {"data", "copy"}},
                body + 34);
  return out + "</svg>";
}

std::string heatMapPicture(const Analysis& a) {
  std::set<int64_t> ranks, steps;
  std::map<std::pair<int64_t, int64_t>, double> ratio;
  std::map<int64_t, std::vector<double>> by_step;
  bool any = false;
  for (const Breakdown& b : a.breakdown) {
    if (!std::isfinite(b.compute_us)) continue;
    ranks.insert(b.rank);
    steps.insert(b.step);
    ratio[{b.rank, b.step}] = b.compute_us;
    by_step[b.step].push_back(b.compute_us);
    any = any || b.compute_us > 0;
  }
  if (ranks.size() < 2 || !any) return "";
  std::map<int64_t, double> usual;
  for (auto& [step, values] : by_step) usual[step] = median(std::move(values));
  const std::vector<int64_t> rows = thinOut(ranks, blamed(a), 64), columns = thinOut(steps, {}, 120);
  const double h = rows.size() > 32 ? 8 : 14, w = (kWidth - kLeft - 10) / static_cast<double>(columns.size());
  const double top = 6, body = top + h * static_cast<double>(rows.size());
  std::string out = open(kWidth, body + 46, "ranks by steps");
  for (size_t r = 0; r < rows.size(); ++r) {
    const double y = top + h * static_cast<double>(r);
    if (h >= 14 || r % 4 == 0 || blamed(a).contains(rows[r]))
      out += label(kLeft - 8, y + h - 1.5, rankName(rows[r]), "end",
                   blamed(a).contains(rows[r]) ? "strong small" : "small");
    for (size_t c = 0; c < columns.size(); ++c) {
      auto it = ratio.find({rows[r], columns[c]});
      if (it == ratio.end()) continue;
      const double excess = usual[columns[c]] > 0 ? it->second / usual[columns[c]] - 1 : 0;
      out += rect(kLeft + w * static_cast<double>(c), y, w - 0.5, h - 0.5, excess >= 0 ? "slow" : "fast",
                  std::min(1.0, 0.04 + std::abs(excess) / 0.2),
                  rankName(rows[r]) + (columns[c] == kNull ? "" : ", step " + std::to_string(columns[c])) +
                      format(": %+.1f %%", 100 * excess));
    }
  }
  for (size_t c = 0; c < columns.size(); c += std::max<size_t>(1, columns.size() / 10))
    if (columns[c] != kNull)
      out +=
          label(kLeft + w * (static_cast<double>(c) + 0.5), body + 14, std::to_string(columns[c]), "middle", "small");
  out += legend({{"slow", "computes longer than the median rank (full colour: 20 %)"}, {"fast", "shorter"}}, body + 28);
  return out + "</svg>";
}

std::string matrixPicture(const Analysis& a) {
  int64_t most_rank = -1;
  for (const MatrixCell& c : a.matrix) most_rank = std::max({most_rank, c.from, c.to});
  if (most_rank < 1) return "";
  constexpr int64_t kMost = 64;
  const int64_t each = (most_rank + kMost) / kMost, side = most_rank / each + 1;
  std::map<std::pair<int64_t, int64_t>, double> cells;
  double most = 0;
  for (const MatrixCell& c : a.matrix)
    if (c.from >= 0 && c.to >= 0)
      most = std::max(most, cells[{c.from / each, c.to / each}] += static_cast<double>(c.bytes));
  const double size = std::clamp(380.0 / static_cast<double>(side), 6.0, 34.0), left = 50;
  const double body = size * static_cast<double>(side);
  std::string out = open(460, body + 62, "communication matrix");
  out += format("<rect x=\"%.1f\" y=\"14\" width=\"%.1f\" height=\"%.1f\" class=\"empty\"/>", left, body, body);
  for (const auto& [at, bytes] : cells) {
    const auto from = std::to_string(at.first * each), to = std::to_string(at.second * each);
    out += rect(left + size * static_cast<double>(at.second), 14 + size * static_cast<double>(at.first), size - 0.6,
                size - 0.6, "accent", 0.12 + 0.88 * bytes / most,
                from + " → " + to + ": " + humanBytes(static_cast<uint64_t>(bytes)));
  }
  for (int64_t i = 0; i < side; i += std::max<int64_t>(1, side / 8)) {
    const double middle = size * (static_cast<double>(i) + 0.5);
    out += label(left - 6, 14 + middle + 4, std::to_string(i * each), "end", "small");
    out += label(left + middle, 10, std::to_string(i * each), "middle", "small");
  }
  out += label(left, body + 30, "row sends to column", "start", "small");
  // The scale.
  for (int i = 0; i < 20; ++i) out += rect(left + 8.0 * i, body + 38, 8, 8, "accent", 0.12 + 0.88 * i / 19, "");
  out += label(left, body + 58, "0", "start", "small");
  out += label(left + 160, body + 58, humanBytes(static_cast<uint64_t>(most)), "middle", "small");
  return out + "</svg>";
}

std::string breakdownPicture(const Analysis& a) {
  struct Sum {
    double parts[7] = {};
    double all = 0;
  };
  std::map<int64_t, Sum> sums;
  std::set<int64_t> ranks;
  for (const Breakdown& b : a.breakdown) {
    const bool phases = std::isfinite(b.forward_us);
    const double values[7] = {phases ? b.forward_us : 0,
                              phases ? b.backward_us : 0,
                              phases ? b.optimizer_us : 0,
                              phases ? b.other_us : b.compute_us,
                              b.data_us,
                              b.exposed_comm_us,
                              b.idle_us};
    Sum& s = sums[b.rank];
    for (int i = 0; i < 7; ++i) {
      s.parts[i] += std::max(0.0, values[i]);
      s.all += std::max(0.0, values[i]);
    }
    ranks.insert(b.rank);
  }
  const std::vector<int64_t> rows = thinOut(ranks, blamed(a), 24);
  if (rows.empty()) return "";
  static constexpr const char* kStyles[] = {"forward", "backward", "optimizer", "compute", "data", "exposed", "idle"};
  static constexpr const char* kNames[] = {
      "forward", "backward", "optimizer", "other computation", "data", "communication alone", "idle"};
  double longest = 0;
  for (const auto& [rank, s] : sums) longest = std::max(longest, s.all);
  const double body = 18 * static_cast<double>(rows.size());
  std::string out = open(kWidth, body + 50, "where the time goes");
  for (size_t r = 0; r < rows.size(); ++r) {
    const Sum& s = sums[rows[r]];
    const double y = 18 * static_cast<double>(r);
    out += label(kLeft - 8, y + 12, rankName(rows[r]), "end", blamed(a).contains(rows[r]) ? "strong" : "");
    double x = kLeft;
    for (int i = 0; i < 7; ++i) {
      const double w = s.parts[i] / longest * (kWidth - kLeft - 10);
      if (w > 0)
        out +=
            rect(x, y, w, 14, kStyles[i], 1,
                 std::string(kNames[i]) + format(": %.1f %%, ", 100 * s.parts[i] / s.all) + humanNs(s.parts[i] * 1000));
      x += w;
    }
  }
  out += axis(longest, body + 4, 4);
  std::vector<std::pair<const char*, const char*>> items;
  for (int i = 0; i < 7; ++i) {
    bool used = false;
    for (const auto& [rank, s] : sums) used = used || s.parts[i] > 0;
    if (used) items.emplace_back(kStyles[i], kNames[i]);
  }
  return out + legend(items, body + 32) + "</svg>";
}

}  // namespace tracesmith::cli
