#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <tuple>

#include "base/count.hpp"
#include "base/text.hpp"
#include "cli/terminal.hpp"
#include "cli/view.hpp"
#include "model/communication.hpp"
#include "trace/export/ranks.hpp"

namespace tracesmith::cli {
namespace {

using namespace trace;

/// What can fill time, of streams and of threads.
enum Work { kCompute, kCommunication, kCopy, kOperator, kCall, kWait, kWorks };

constexpr char kMicro = '\x01';  // stands for µ, which takes two bytes

/// One line of the timeline: the ns of each kind of work in each bucket.
struct Lane {
  std::vector<std::array<double, kWorks>> buckets;
  std::vector<double> busy;     // ns, clamped to the bucket
  int64_t covered = INT64_MIN;  // until here, of a thread: what is nested is not counted twice
};

/// rank, device, stream, thread.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t>;

struct Window {
  int64_t from, to;
  size_t buckets;
  double bucketNs() const { return difference(from, to) / static_cast<double>(buckets); }
};

/// Spreads [start, end) over the buckets.
template <typename Add>
void spread(const Window& w, int64_t start, int64_t end, Add add) {
  start = std::max(start, w.from);
  end = std::min(end, w.to);
  if (end < start) return;
  const double size = w.bucketNs(), a = difference(w.from, start), b = difference(w.from, end);
  auto at = [&](double ns) { return std::min(w.buckets - 1, static_cast<size_t>(ns / size)); };
  for (size_t i = at(a), last = at(b); i <= last; ++i)
    add(i, std::max(0.0, std::min(b, size * static_cast<double>(i + 1)) - std::max(a, size * static_cast<double>(i))));
}

/// Adds an event to its line; false if timelines do not show it.
bool workOf(EventType type, std::string_view name, Work& work) {
  switch (type) {
    case EventType::kernel:
      work = model::isCommunication(name) ? kCommunication : kCompute;
      return true;
    case EventType::memcpy:
    case EventType::memset:
      work = kCopy;
      return true;
    case EventType::cpu_op:
      work = kOperator;
      return true;
    case EventType::runtime:
    case EventType::driver:
      work = kCall;
      return true;
    case EventType::sync:
      work = kWait;
      return true;
    default:
      return false;  // annotations and Python frames span what they enclose
  }
}

class Timeline {
 public:
  Timeline(const Reader& reader, const Selection& selection, const ViewOptions& o)
      : reader_(reader), selection_(selection), o_(o) {}

  Status draw();

 private:
  bool findWindow();
  Status addRank(int64_t rank);
  void add(const Row& row, int64_t rank, int64_t ts, int64_t dur);
  char character(const Lane& lane, size_t i) const;
  double busy(const Lane& lane) const;
  void print(const std::vector<int64_t>& not_shown) const;
  void printJson(size_t ranks_not_shown) const;
  std::string axis(size_t label) const;

  const Reader& reader_;
  Selection selection_;
  const ViewOptions& o_;
  Window window_{};
  std::map<Key, Lane> lanes_;
};

/// From the first to the last event of the ranks that can be shown.
bool Timeline::findWindow() {
  int64_t first = INT64_MAX, last = INT64_MIN, low, high;
  for (const Block* b : reader_.blocks(tableOf<EventRow>())) {
    if (!selection_.mayMatch(*b)) continue;
    if (blockTimes(*b, selection_.clock, low, high)) first = std::min(first, low), last = std::max(last, high);
  }
  if (first > last) return false;
  window_.from = selection_.from == INT64_MIN ? first : selection_.from;
  window_.to = selection_.to == INT64_MAX ? last : selection_.to;
  if (window_.to <= window_.from) window_.to = window_.from + 1;
  return true;
}

void Timeline::add(const Row& row, int64_t rank, int64_t ts, int64_t dur) {
  auto type = static_cast<EventType>(row.slot(events::type));
  Work work;
  if (!workOf(type, row.text(events::name), work)) return;
  const bool on_device = isDeviceType(type);
  Key key = on_device ? Key(rank, row.slot(events::device), row.slot(events::stream), kNull)
                      : Key(rank, INT64_MAX, INT64_MAX, row.slot(events::tid));  // threads after streams
  Lane& lane = lanes_[key];
  if (lane.buckets.empty()) {
    lane.buckets.resize(window_.buckets);
    lane.busy.resize(window_.buckets);
  }
  const int64_t end = dur > INT64_MAX - std::max<int64_t>(ts, 0) ? INT64_MAX : ts + dur;
  spread(window_, ts, end, [&](size_t i, double ns) { lane.buckets[i][work] += ns; });
  spread(window_, std::max(ts, lane.covered), end, [&](size_t i, double ns) { lane.busy[i] += ns; });
  lane.covered = std::max(lane.covered, end);
}

Status Timeline::addRank(int64_t rank) {
  Selection rows = selection_;
  if (!o_.threads) {
    uint64_t device_types = 0;
    for (int t = 0; t < kEventTypes; ++t)
      if (isDeviceType(static_cast<EventType>(t))) device_types |= 1ull << t;
    rows.types &= device_types;
  }
  TimeOrder order = rowsOfRank(
      reader_, tableOf<EventRow>(), rows, rank,
      {events::ts, events::dur, events::type, events::name, events::rank, events::device, events::stream, events::tid});
  while (order.next()) add(order.row(), rank, order.ts(), order.dur());
  return order.status();
}

char Timeline::character(const Lane& lane, size_t i) const {
  const std::array<double, kWorks>& ns = lane.buckets[i];
  const double share = lane.busy[i] / window_.bucketNs();
  if (share < 0.01) return '.';
  // Operators enclose calls: those show through where they take a good part.
  size_t most = static_cast<size_t>(std::max_element(ns.begin(), ns.begin() + kOperator) - ns.begin());
  if (ns[most] == 0) most = ns[kWait] > lane.busy[i] / 2 ? kWait : ns[kCall] > lane.busy[i] / 2 ? kCall : kOperator;
  switch (most) {
    case kCompute:
      return share < 1.0 / 3 ? ':' : share < 2.0 / 3 ? '+' : '#';
    case kCommunication:
      return share < 0.5 ? 'n' : 'N';
    case kCopy:
      return share < 0.5 ? 'm' : 'M';
    case kCall:
      return 'r';
    case kWait:
      return 's';
    default:
      return 'o';
  }
}

double Timeline::busy(const Lane& lane) const {
  double ns = 0;
  for (double b : lane.busy) ns += b;
  return std::min(1.0, ns / (difference(window_.from, window_.to)));
}

/// Two lines: times at round distances, and marks below them.
std::string Timeline::axis(size_t label) const {
  const double span = difference(window_.from, window_.to);
  const double offset = difference(o_.start_ns, window_.from);
  constexpr double kApart = 10;  // characters between two times, at least
  double step = std::pow(10, std::floor(std::log10(span * kApart / static_cast<double>(window_.buckets))));
  for (double factor : {2.0, 5.0, 10.0})
    if (step / span * static_cast<double>(window_.buckets) < kApart)
      step = std::pow(10, std::floor(std::log10(step * 1.0001))) * factor;
  std::string times(label + window_.buckets, ' '), marks = times;
  for (double t = std::ceil(offset / step) * step; t <= offset + span; t += step) {
    auto at = static_cast<size_t>((t - offset) / span * static_cast<double>(window_.buckets));
    if (at >= window_.buckets) break;
    marks[label + at] = '|';
    std::string text = std::abs(t) < step / 2 ? "0" : humanNs(t);
    // 20.00 ms: zeros behind the point say nothing on an axis.
    size_t point = text.find('.'), unit = text.find(' ');
    if (point != std::string::npos && unit != std::string::npos) {
      size_t end = text.find_last_not_of('0', unit - 1);
      text.erase(end == point ? point : end + 1, unit - (end == point ? point : end + 1));
    }
    // One byte a character, until all are in their places.
    if (const size_t micro = text.find("µ"); micro != std::string::npos) text.replace(micro, 2, 1, kMicro);
    if (label + at + text.size() <= times.size()) times.replace(label + at, text.size(), text);
  }
  for (size_t at = 0; (at = times.find(kMicro, at)) != std::string::npos; ++at) times.replace(at, 1, "µ");
  times.erase(times.find_last_not_of(' ') + 1);
  marks.erase(marks.find_last_not_of(' ') + 1);
  return times + "\n" + marks + "\n";
}

std::string number(int64_t v) { return v == kNull ? "-" : std::to_string(v); }

std::string label(const Key& key) {
  auto [rank, device, stream, tid] = key;
  char out[64];
  if (device == INT64_MAX)
    std::snprintf(out, sizeof out, "%4s %10s ", number(rank).c_str(), ("t" + number(tid)).c_str());
  else
    std::snprintf(out, sizeof out, "%4s %3s %6s ", number(rank).c_str(), number(device).c_str(),
                  number(stream).c_str());
  return out;
}

void Timeline::print(const std::vector<int64_t>& not_shown) const {
  const size_t width = label({0, 0, 0, 0}).size();
  std::string what = " from " + humanNs(difference(o_.start_ns, window_.from)) + " to " +
                     humanNs(difference(o_.start_ns, window_.to)) + "; one character is " + humanNs(window_.bucketNs());
  size_t room = o_.width > what.size() + 20 ? o_.width - what.size() : 20;
  std::printf("%s%s\n\n", shorten(printable(reader_.path()), room).c_str(), what.c_str());
  std::string head = axis(width);
  const std::string title = "rank GPU stream ";
  size_t marks = head.find('\n') + 1;
  head.replace(marks, std::min(title.size(), head.size() - marks - 1), title);
  std::printf("%s", head.c_str());
  size_t lines = 0;
  for (const auto& [key, lane] : lanes_) {
    if (lines++ == o_.count) break;
    std::string text;
    for (size_t i = 0; i < window_.buckets; ++i) text += character(lane, i);
    std::printf("%s%s %3.0f%%\n", label(key).c_str(), text.c_str(), 100 * busy(lane));
  }
  std::printf("\n# kernels (+ about half, : less)  N communication  M copies  . idle\n");
  if (o_.threads) std::printf("threads: o operators  r calls of the runtime  s waiting for the GPU\n");
  size_t more = lanes_.size() > o_.count ? lanes_.size() - o_.count : 0;
  if (more > 0) std::printf("… and %s of these ranks (-n shows more)\n", counted(more, "more line").c_str());
  if (!not_shown.empty())
    std::printf("… and %s: select some with --rank %s, or show more lines with -n\n",
                counted(not_shown.size(), "more rank").c_str(), std::to_string(not_shown[0]).c_str());
}

void Timeline::printJson(size_t ranks_not_shown) const {
  std::string out;
  JsonWriter w(out);
  w.beginObject()
      .field("from_ns", window_.from)
      .field("to_ns", window_.to)
      .field("bucket_ns", window_.bucketNs())
      .key("lines")
      .beginArray();
  for (const auto& [key, lane] : lanes_) {
    auto [rank, device, stream, tid] = key;
    auto field = [&](const char* name, int64_t v) {
      v == kNull || v == INT64_MAX ? w.key(name).null() : w.field(name, v);
    };
    w.beginObject();
    field("rank", rank);
    field("device", device);
    field("stream", stream);
    field("tid", tid);
    std::string text;
    for (size_t i = 0; i < window_.buckets; ++i) text += character(lane, i);
    w.field("busy", busy(lane)).field("buckets", text).endObject();
  }
  w.endArray().field("ranks_not_shown", uint64_t{ranks_not_shown}).endObject();
  std::printf("%s\n", out.c_str());
}

Status Timeline::draw() {
  Result<std::vector<int64_t>> ranks = ranksOf(reader_, {&tableOf<EventRow>()}, selection_);
  if (!ranks) return ranks.status();
  if (ranks->size() > o_.count)
    selection_.ranks.assign(ranks->begin(), ranks->begin() + static_cast<std::ptrdiff_t>(o_.count));
  std::erase(selection_.ranks, kNull);
  if (!findWindow()) {
    std::printf(o_.json ? "{\"lines\":[]}\n" : "no events\n");
    return {};
  }
  constexpr size_t kBusy = 5;  // " 100%"
  size_t used = label({0, 0, 0, 0}).size() + kBusy;
  window_.buckets = o_.width > used + 10 ? o_.width - used : 10;
  size_t done = 0;
  for (; done < ranks->size() && lanes_.size() < o_.count; ++done) TS_TRY(addRank((*ranks)[done]));
  std::vector<int64_t> not_shown(ranks->begin() + static_cast<std::ptrdiff_t>(done), ranks->end());
  if (o_.json)
    printJson(not_shown.size());
  else if (lanes_.empty())
    std::printf("no GPU activity in this window%s\n", o_.threads ? "" : "; --threads shows the host");
  else
    print(not_shown);
  return {};
}

}  // namespace

Status viewTimeline(const Reader& reader, const Selection& selection, const ViewOptions& options) {
  return Timeline(reader, selection, options).draw();
}

}  // namespace tracesmith::cli
