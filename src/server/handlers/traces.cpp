// Recorded traces: timeline, statistics, analysis, downloads.
#include <algorithm>
#include <filesystem>
#include <set>

#include "access/names.hpp"
#include "base/file.hpp"
#include "base/progress.hpp"
#include "base/text.hpp"
#include "model/travel_json.hpp"
#include "server/handlers/handlers.hpp"
#include "server/handlers/trace_stacks.hpp"
#include "trace/clocks.hpp"
#include "trace/export/export.hpp"
#include "tracesmith/analysis/diff.hpp"

namespace tracesmith::server {
namespace {

constexpr int64_t kMostTracks = 256, kMostBuckets = 4096;
constexpr size_t kPieceBytes = 1 << 18;

/// The window and tracks of a request; all of them where nothing is said and `all` is set.
Status parseWindow(const Request& r, const TimelineIndex& index, bool all, TileQuery& q) {
  constexpr int64_t kMost = int64_t{1} << 60;
  q.from = 0;
  q.to = index.duration + 1;
  const std::string from = r.get("from"), to = r.get("to"), tracks = r.get("tracks");
  if (!from.empty() && !parseRange(from, -kMost, kMost, q.from))
    return Status::invalid("'from' must be a whole number of ns after the origin");
  if (!to.empty() && !parseRange(to, -kMost, kMost, q.to))
    return Status::invalid("'to' must be a whole number of ns after the origin");
  if (q.to <= q.from) return Status::invalid("'to' must come after 'from'");
  if (tracks.empty()) {
    if (!all) return Status::invalid("no tracks given: tracks=1,2,3");
    for (uint32_t i = 0; i < index.tracks.size(); ++i) q.tracks.push_back(i);
    return {};
  }
  for (size_t at = 0; at <= tracks.size();) {
    const size_t end = std::min(tracks.find(',', at), tracks.size());
    int64_t n;
    if (!parseRange(std::string_view(tracks).substr(at, end - at), 0, static_cast<int64_t>(index.tracks.size()) - 1, n))
      return Status::invalid("there is no track '" + tracks.substr(at, std::min<size_t>(20, end - at)) + "'");
    q.tracks.push_back(static_cast<uint32_t>(n));
    at = end + 1;
  }
  std::vector<uint32_t> sorted = q.tracks;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return Status::invalid("a track was requested twice");
  return {};
}

bool sendFile(const std::string& path, const Sink& sink) {
  Result<File> file = File::openRead(path);
  if (!file) return false;
  std::string buffer(kPieceBytes, '\0');
  for (size_t got = 1;;) {
    if (!file->readNext(buffer.data(), buffer.size(), got)) return false;
    if (got == 0) return true;
    if (!sink(std::string_view(buffer.data(), got))) return false;
  }
}

/// "perfetto, chrome or sbt"
std::string downloads() {
  std::string text;
  for (const trace::ExportFormat& f : trace::exportFormats())
    if (f.whole) text += (text.empty() ? "" : ", ") + std::string(f.name);
  return text + " or sbt";
}
const std::string kDownloads = downloads();

const Parameter kFrom{"from", "integer", false, "ns after the origin"},
    kTo{"to", "integer", false, "ns after the origin"};
const Parameter kTracks{"tracks", "string", false, "ids separated by commas (default: all)"};

class TraceHandlers final : public Handlers {
 public:
  explicit TraceHandlers(const Sources& sources) : sources_(sources) {}
  std::vector<Route> routes() override;

 private:
  Answer traceList(const Request& r);
  Answer timeline(const Request& r);
  Answer tiles(const Request& r);
  Answer traceEvent(const Request& r);
  Answer traceStats(const Request& r);
  Answer traceFlame(const Request& r);
  Answer traceSearch(const Request& r);
  Answer traceAnalysis(const Request& r);
  Answer traceDiff(const Request& r);
  Answer traceStacks(const Request& r);
  Answer traceExport(const Request& r);

  const Sources& sources_;
};

std::vector<Route> TraceHandlers::routes() {
  return {
      {"GET",
       "/api/v1/traces",
       kViewer,
       "What has a timeline: sessions, or the file",
       {},
       bind(this, &TraceHandlers::traceList)},
      {"GET",
       "/api/v1/traces/{id}/timeline",
       kViewer,
       "Tracks of a timeline; 202 while it is prepared",
       {},
       bind(this, &TraceHandlers::timeline)},
      {"GET",
       "/api/v1/traces/{id}/tiles",
       kViewer,
       "What tracks did in a window: slices or buckets",
       {{"from", "integer", false, "ns after the origin"},
        {"to", "integer", false, "ns after the origin"},
        {"width", "integer", true, "buckets, at most 4096"},
        {"tracks", "string", true, "ids separated by commas, at most 256"}},
       bind(this, &TraceHandlers::tiles)},
      {"GET",
       "/api/v1/traces/{id}/events/{row}",
       kViewer,
       "Everything about one row; its flow and collective",
       {},
       bind(this, &TraceHandlers::traceEvent)},
      {"GET",
       "/api/v1/traces/{id}/stats",
       kViewer,
       "Sums by name and type",
       {kFrom, kTo, kTracks},
       bind(this, &TraceHandlers::traceStats)},
      {"GET",
       "/api/v1/traces/{id}/flame",
       kViewer,
       "What lies in what: time by stack of ranges, operators and kernels",
       {kFrom, kTo, kTracks},
       bind(this, &TraceHandlers::traceFlame)},
      {"GET",
       "/api/v1/traces/{id}/search",
       kViewer,
       "Search rows by part of their name",
       {{"q", "string", true, "part of a name, case-insensitive"},
        {"limit", "integer", false, "hits, 200"},
        {"from", "integer", false, "the first hits that begin then or later, ns after the origin"},
        {"to", "integer", false, "instead the last hits that begin earlier"},
        kTracks,
        {"type", "string", false, "rows of this type: kernel, memcpy, ..."},
        {"min_ns", "integer", false, "no shorter rows"}},
       bind(this, &TraceHandlers::traceSearch)},
      {"GET",
       "/api/v1/traces/{id}/analysis",
       kViewer,
       "As tracesmith analyze --json; 202 while it runs",
       {},
       bind(this, &TraceHandlers::traceAnalysis)},
      {"GET",
       "/api/v1/traces/{id}/diff",
       kViewer,
       "What changed from this trace to another: as tracesmith diff --json",
       {{"with", "string", true, "id of the other trace"}},
       bind(this, &TraceHandlers::traceDiff)},
      {"GET",
       "/api/v1/traces/{id}/stacks",
       kViewer,
       "Where its stacks spend their time; of two ranks, what they do differently",
       {{"rank", "integer", false, "of this rank only"},
        {"with", "integer", false, "compare it with this rank"},
        {"state", "string", false, "only samples on-cpu or waiting"}},
       bind(this, &TraceHandlers::traceStacks)},
      {"GET",
       "/api/v1/traces/{id}/export",
       kViewer,
       "Download",
       {{"format", "string", true, kDownloads.c_str()}, kFrom, kTo},
       bind(this, &TraceHandlers::traceExport)},
  };
}

Answer TraceHandlers::traceList(const Request&) {
  model::TraceList answer;
  if (sources_.cluster) {
    Result<std::shared_ptr<const cluster::ClusterStatus>> status = sources_.cluster->status();
    if (!status) return Answer::error(status.status());
    std::set<std::string> simulated;
    for (const cluster::NodeStatus& n : (*status)->nodes)
      if (n.simulated) simulated.insert(n.node);
    for (const cluster::SessionInfo& s : (*status)->sessions)
      answer.traces.push_back(
          {s.id,
           s.name,
           model::TraceKind::session,
           s.state,
           s.start_ns,
           s.end_ns,
           {},
           std::any_of(s.nodes.begin(), s.nodes.end(), [&](const auto& n) { return simulated.contains(n.node); })});
  } else {
    for (const std::string& id : sources_.traces.files()) {
      Answer instead;
      TracePtr trace = traceOf(sources_.traces, id, instead);
      if (!trace) return instead;
      Timeline& t = trace->timeline();
      const int64_t start = t.index().origin;
      answer.traces.push_back({id, trace->title(), model::TraceKind::file, model::SessionState::complete, start,
                               start + t.index().duration, t.reader().rows(trace::tableOf<trace::EventRow>()),
                               trace::isSimulated(t.reader())});
    }
  }
  return Answer::json(model::toJson(answer));
}

Answer TraceHandlers::timeline(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  return Answer::json(trace->timeline().describe(trace->id(), trace->title()));
}

Answer TraceHandlers::tiles(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  TileQuery q;
  if (Status s = parseWindow(r, trace->timeline().index(), false, q); !s) return Answer::error(s);
  if (static_cast<int64_t>(q.tracks.size()) > kMostTracks)
    return Answer::error(400, "at most 256 tracks can be requested at a time");
  if (!parseRange(r.get("width"), 1, kMostBuckets, q.width))
    return Answer::error(400, "'width' must be a number of buckets from 1 to 4096");
  return Answer::json(trace->timeline().tiles(q));
}

Answer TraceHandlers::traceEvent(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  Result<std::string> text = trace->timeline().event(r.name("row"));
  return text ? Answer::json(std::move(*text)) : Answer::error(text.status());
}

Answer TraceHandlers::traceStats(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  TileQuery q;
  if (Status s = parseWindow(r, trace->timeline().index(), true, q); !s) return Answer::error(s);
  return Answer::json(trace->timeline().stats(q));
}

Answer TraceHandlers::traceFlame(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  TileQuery q;
  if (Status s = parseWindow(r, trace->timeline().index(), true, q); !s) return Answer::error(s);
  Result<std::string> text = trace->timeline().flame(q);
  return text ? Answer::json(std::move(*text)) : Answer::error(text.status());
}

Answer TraceHandlers::traceSearch(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  SearchQuery search{.text = r.get("q")};
  if (search.text.empty()) return Answer::error(400, "nothing to search for: q=TEXT");
  int64_t limit = 200;
  if (r.query.contains("limit") && !parseRange(r.get("limit"), 1, 10000, limit))
    return Answer::error(400, "'limit' must be a number from 1 to 10000");
  search.limit = static_cast<size_t>(limit);
  TileQuery q;
  if (Status s = parseWindow(r, trace->timeline().index(), true, q); !s) return Answer::error(s);
  if (r.query.contains("tracks")) search.tracks = q.tracks;
  if (r.query.contains("from")) search.from = q.from;
  if (r.query.contains("to")) search.to = q.to;
  if (search.from && search.to) return Answer::error(400, "give 'from' or 'to', not both");
  if (r.query.contains("min_ns") && !parseRange(r.get("min_ns"), 0, int64_t{1} << 60, search.least_ns))
    return Answer::error(400, "'min_ns' must be a number of ns");
  if (const std::string type = r.get("type"); !type.empty()) {
    for (uint8_t t = 0; t < kRowTypes && !search.type; ++t)
      if (type == rowTypeName(t)) search.type = t;
    if (!search.type) return Answer::error(400, "there is no type '" + type.substr(0, 20) + "'");
  }
  return Answer::json(trace->timeline().search(search));
}

Answer TraceHandlers::traceAnalysis(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  Result<std::string> text = trace->analysis();
  if (!text) return Answer::error(text.status());
  if (text->empty()) {
    std::string running;
    JsonWriter w(running);
    w.beginObject().field("state", "running").key("progress").null().endObject();
    return Answer::json(std::move(running), 202);
  }
  return Answer::json(std::move(*text));
}

Answer TraceHandlers::traceDiff(const Request& r) {
  if (r.get("with").empty()) return Answer::error(400, "name the trace to compare with: with=ID");
  Answer instead;
  TracePtr before = traceOf(sources_.traces, r.name("id"), instead);
  if (!before) return instead;
  TracePtr after = traceOf(sources_.traces, r.get("with"), instead);
  if (!after) return instead;
  Result<analysis::Diff> diff = analysis::diff(before->timeline().reader(), after->timeline().reader());
  if (!diff) return Answer::error(diff.status());
  return Answer::json(analysis::toJson(*diff, before->title(), after->title()));
}

Answer TraceHandlers::traceStacks(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  return trace ? stacksOf(trace->timeline().reader(), r) : instead;
}

Answer TraceHandlers::traceExport(const Request& r) {
  Answer instead;
  TracePtr trace = traceOf(sources_.traces, r.name("id"), instead);
  if (!trace) return instead;
  const std::string format = r.get("format");
  Answer answer;
  answer.type = "application/octet-stream";
  std::string name;  // never more than these characters in a header
  for (char c : trace->title().substr(0, 64))
    name += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ? c : '_';
  if (name.ends_with(".sbt")) name.resize(name.size() - 4);
  auto download = [&](const std::string& ending) {
    answer.headers.emplace_back("Content-Disposition", "attachment; filename=\"" + name + ending + "\"");
  };
  if (format == "sbt") {
    if (r.query.contains("from") || r.query.contains("to"))
      return Answer::error(400, "sbt exports the whole trace: from and to do not work with it");
    download(".sbt");
    answer.stream = [trace](const Sink& sink) { return sendFile(trace->path(), sink); };
    return answer;
  }
  const std::span<const trace::ExportFormat> formats = trace::exportFormats();
  const auto known =
      std::ranges::find_if(formats, [&](const trace::ExportFormat& f) { return f.whole && format == f.name; });
  if (known == formats.end()) return Answer::error(400, "'format' must be " + kDownloads);
  TileQuery q;
  if (Status s = parseWindow(r, trace->timeline().index(), true, q); !s) return Answer::error(s);
  trace::Selection selection;
  // Other tools know one clock: the timeline's, where the trace has several.
  const Timeline& timeline = trace->timeline();
  Result<std::unique_ptr<trace::TraceClock>> common = trace::TraceClock::load(timeline.reader());
  if (!common) return Answer::error(common.status());
  selection.clock = common->get();
  if (r.query.contains("from") || r.query.contains("to")) {
    selection.from = timeline.index().origin + q.from;
    selection.to = timeline.index().origin + q.to;
    const trace::Clocks& clocks = timeline.clocks();
    if (!selection.clock && !clocks.empty()) {  // one clock, which exporters leave as it is
      selection.from = clocks.begin()->second.toRaw(selection.from);
      selection.to = clocks.begin()->second.toRaw(selection.to);
    }
  }
  std::error_code error;
  auto file = std::make_shared<TemporaryFile>(
      (std::filesystem::temp_directory_path(error) / ("tracesmith-export-" + access::randomHex(16))).string());
  Result<File> out = File::create(file->path());
  if (!out) return Answer::error(out.status());
  BufferedWriter writer(*out);
  Progress progress("exporting");
  trace::Export e{timeline.reader(), selection, writer, progress};
  Status status = known->whole(e);
  if (status) status = writer.flush();
  if (!status) return Answer::error(status);
  const std::string endings = known->endings;
  download(endings.substr(0, endings.find(' ')));
  answer.stream = [file](const Sink& sink) { return sendFile(file->path(), sink); };
  return answer;
}

}  // namespace

std::unique_ptr<Handlers> makeTraceHandlers(const Sources& sources) { return std::make_unique<TraceHandlers>(sources); }

}  // namespace tracesmith::server
