// Events as they come, in order, and as programs get them.
#include <stdlib.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "cluster/cluster_fixture.hpp"
#include "cluster/master/event_stream.hpp"
#include "cluster/rpc/client.hpp"
#include "support/small_job.hpp"
#include "tracesmith/cluster/cluster_master.hpp"
#include "tracesmith/trace/reader.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::cluster {
namespace {

class Events : public ClusterFixture {
 protected:
  /// How often each event of this kind is there.
  using Bag = std::map<std::string, int64_t>;
  static Bag bagOf(const std::string& trace) {
    Bag bag;
    for (const test::Row& r : test::rows(trace, "events"))
      ++bag[r.s("node") + " " + std::to_string(r.i("rank")) + " " + r.s("name")];
    return bag;
  }
  /// What `cluster tail --json` printed; the number of losses it told.
  static Bag bagOfTail(const std::string& text, int64_t& lost) {
    Bag bag;
    lost = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      auto field = [&](const std::string& name) {
        const size_t at = line.find("\"" + name + "\":");
        if (at == std::string::npos) return std::string();
        size_t from = at + name.size() + 3;
        const bool quoted = line[from] == '"';
        from += quoted;
        return line.substr(from, line.find_first_of(quoted ? "\"" : ",}", from) - from);
      };
      if (!field("lost").empty()) lost += std::stoll(field("lost"));
      if (!field("name").empty()) ++bag[field("node") + " " + field("rank") + " " + field("name")];
    }
    return bag;
  }
  static int64_t rowsOf(const std::string& trace) {
    Result<std::unique_ptr<trace::Reader>> reader = trace::Reader::open(trace);
    EXPECT_TRUE(reader) << reader.status().message();
    return static_cast<int64_t>((*reader)->rows(trace::tableOf<trace::EventRow>()));
  }
};

TEST_F(Events, ATailShowsWhatTheTraceHas) {
  startMaster();
  auto a = agent("alpha", {"--sim", "1"});
  ASSERT_TRUE(connected(1));
  const std::vector<std::string> tail = {TRACESMITH_BIN, "cluster", "tail", "--json", "--master", address()};
  std::vector<std::string> only = tail;
  only.insert(only.end(), {"--type", "collective", "--rank", "0", "-n", "3"});
  Child all(tail, environment()), some(only, environment());
  // The session begins when both have subscribed: an unknown type is told at once, a good one says nothing.
  const Output wrong = command({"tail", "--type", "nonsense"});
  EXPECT_EQ(wrong.rc, 1);
  EXPECT_TRUE(has(wrong.err, "no events of type 'nonsense'")) << wrong.err;
  ASSERT_TRUE(eventually([&] {
    command({"record", "-o", dir_ / "first.sbt", "-d", "0.2"});
    return !all.out().empty();
  }));
  ASSERT_EQ(command({"record", "-o", dir_ / "r.sbt", "-d", "0.5"}).rc, 0);
  const Bag wanted = bagOf(dir_ / "r.sbt");
  ASSERT_FALSE(wanted.empty());
  int64_t lost = 0;
  EXPECT_TRUE(eventually([&] {
    const Bag seen = bagOfTail(all.out(), lost);
    return std::all_of(wanted.begin(), wanted.end(), [&](const auto& w) {
      auto it = seen.find(w.first);
      return it != seen.end() && it->second >= w.second;
    });
  }));
  EXPECT_EQ(lost, 0);
  const Output o = some.wait();
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_EQ(std::count(o.out.begin(), o.out.end(), '\n'), 3) << o.out;
  std::istringstream lines(o.out);
  for (std::string line; std::getline(lines, line);) EXPECT_TRUE(has(line, "\"rank\":0") && has(line, "NCCL")) << line;
  all.signal(SIGINT);
  EXPECT_EQ(all.wait().rc, 0);
}

TEST_F(Events, AnEventOfNoRankSaysNone) {
  const std::string path = dir_ / "marks.sbt";
  auto writer = trace::Writer::create(path, {});
  ASSERT_TRUE(writer) << writer.status().message();
  trace::EventRow row;
  row.ts = 1;
  row.type = static_cast<int64_t>(trace::EventType::marker);
  ASSERT_TRUE((*writer)->appender()->append(row));
  ASSERT_TRUE((*writer)->close());
  EventStream stream;
  auto all = stream.subscribe({}, [] {});
  ASSERT_TRUE(all);
  stream.grown("node0", path, 0, std::filesystem::file_size(path), 1);
  LiveEvent e;
  ASSERT_TRUE(eventually([&] { return (*all)->take(e); }));
  EXPECT_EQ(e.event.type, EventType::Marker);
  EXPECT_FALSE(e.rank.has_value());
}

TEST_F(Events, ASubscriberThatDoesNotReadLosesAndIsToldHowMany) {
  const std::string path = dir_ / "job.sbt";
  test::SmallJob job;
  job.steps = 200;
  job.kernels = 50;
  test::writeSmallJob(path, job);
  const int64_t rows = rowsOf(path);
  ASSERT_GT(rows, 1 << 16);
  const uint64_t size = std::filesystem::file_size(path);
  EventStream stream;
  EventFilter filter;
  filter.types = {"kernel", "runtime", "annotation", "memcpy", "marker", "cpu_op", "other"};
  auto slow = stream.subscribe(filter, [] {});
  filter.ranks = {3};
  auto third = stream.subscribe(filter, [] {});
  filter.nodes = {"elsewhere"};
  auto nobody = stream.subscribe(filter, [] {});
  ASSERT_TRUE(slow && third && nobody);
  stream.grown("node0", path, 0, size, static_cast<uint64_t>(rows));
  const auto most = [&](Subscription& s) {
    int64_t got = 0, lost = 0;
    LiveEvent e;
    while (s.take(e)) got += e.event.type != EventType::Unknown, lost += static_cast<int64_t>(e.lost);
    return std::pair(got, lost);
  };
  // Everything there is was either put into its queue or counted; nothing waited for it.
  int64_t got = 0, lost = 0;
  EXPECT_TRUE(eventually([&] {
    const auto [g, l] = most(**slow);
    got += g, lost += l;
    return got + lost >= rows;
  }));
  EXPECT_EQ(got + lost, rows);
  EXPECT_GE(got, 1);
  int64_t of_third = 0;
  EXPECT_TRUE(eventually([&] {
    const auto [g, l] = most(**third);
    of_third += g + l;
    return of_third >= rows / job.ranks;
  }));
  EXPECT_EQ(of_third, rows / job.ranks);
  EXPECT_EQ(most(**nobody).first, 0);
  // What could not even be decoded is counted as well.
  stream.grown("node0", dir_ / "gone.sbt", 0, 10, 77);
  EXPECT_TRUE(eventually([&] {
    const auto [g, l] = most(**slow);
    lost = l;
    return l > 0;
  }));
  EXPECT_EQ(lost, 77);
  for (auto& s : {*slow, *third, *nobody}) stream.unsubscribe(s);
}

TEST_F(Events, ATimelineIsOneOrderOverAllNodes) {
  const std::string path = dir_ / "job.sbt";
  test::SmallJob job;
  job.clock_ns = {{0, 0}, {1, 7'000'000'000}};  // a node that is seven seconds ahead
  test::writeSmallJob(path, job);
  ClusterTimeline timeline;
  ASSERT_TRUE(timeline.open(path)) << timeline.lastError();
  std::string node;
  TraceEvent event;
  Timestamp last = 0;
  uint64_t count = 0, changes = 0;
  std::string before;
  std::map<std::string, std::set<Timestamp>> ends;  // of collectives, by sequence number
  while (timeline.next(node, event)) {
    EXPECT_GE(event.timestamp, last);
    last = event.timestamp;
    ++count;
    changes += node != before;
    before = node;
    if (event.type == EventType::NCCLComplete) ends[event.metadata["seq"]].insert(event.timestamp + event.duration);
  }
  EXPECT_EQ(timeline.lastError(), "");
  EXPECT_EQ(count, timeline.event_count);
  EXPECT_EQ(count, test::rows(path, "events").size() + test::rows(path, "collectives").size());
  EXPECT_GT(changes, 10u) << "nodes take turns";
  EXPECT_LT(timeline.end_time - timeline.start_time, 5'000'000'000u) << "the seven seconds are gone";
  ASSERT_FALSE(ends.empty());
  for (const auto& [seq, at] : ends) EXPECT_LE(*at.rbegin() - *at.begin(), 1000u) << "collective " << seq;
  // Other tools get the same clock.
  const Output o = test::tracesmith({"export", path, "-o", dir_ / "job.json"});
  ASSERT_EQ(o.rc, 0) << o.err;
  const std::string json = test::readFile(dir_ / "job.json");
  double first = 1e300, latest = 0;
  for (size_t at = json.find("\"ts\":"); at != std::string::npos; at = json.find("\"ts\":", at + 1)) {
    const double ts = std::stod(json.substr(at + 5, 32));
    if (ts <= 0) continue;
    first = std::min(first, ts);
    latest = std::max(latest, ts);
  }
  EXPECT_LT(latest - first, 5e6) << "µs";
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
    EXPECT_EQ(entry.path().string().find("aligned"), std::string::npos) << entry.path();
}

TEST_F(Events, SqlAndCommunicationOfASession) {
  startMaster();
  const std::string start = std::to_string(::time(nullptr));
  auto part = [&](const char* node, const char* first) {
    return agent(node, {"--sim", "2", "--sim-ranks", "4", "--sim-first-rank", first, "--sim-start", start});
  };
  auto a = part("alpha", "0"), b = part("beta", "2");
  ASSERT_TRUE(connected(2));
  ASSERT_EQ(command({"record", "--name", "s", "-o", dir_ / "r.sbt", "-d", "1.5"}).rc, 0);
  const std::string wanted = std::to_string(rowsOf(dir_ / "r.sbt"));
#if TRACESMITH_HAS_QUERY
  const Output q = command({"query", "--name", "s", "--format", "csv", "SELECT count(*) AS n FROM events"});
  EXPECT_EQ(q.rc, 0) << q.err;
  EXPECT_TRUE(has(q.out, wanted)) << q.out << " not " << wanted;
  const Output all = command({"query", "--json", "SELECT DISTINCT node FROM events ORDER BY 1"});
  EXPECT_EQ(all.rc, 0) << all.err;
  EXPECT_TRUE(has(all.out, "alpha") && has(all.out, "beta")) << all.out;
#endif
  EXPECT_TRUE(has(command({"query", "--name", "none", "SELECT 1"}).err, "there is no session none"));
  const Output comm = test::tracesmith({"cluster", "analyze-comm", dir_ / "r.sbt"});
  EXPECT_EQ(comm.rc, 0) << comm.err;
  EXPECT_TRUE(has(comm.out, "4 ranks, communication pattern")) << comm.out;
  EXPECT_TRUE(has(command({"analyze-comm", "--name", "s", "--json"}).out, "\"matrix\":[{\"from\"")) << comm.out;
  EXPECT_EQ(test::tracesmith({"cluster", "analyze-comm"}).rc, 2);
}

TEST_F(Events, ANodeCapturesByItself) {
  ::setenv("TRACESMITH_DIR", rings().c_str(), 1);
  NodeAggregatorConfig config;
  config.node_id = "alone";
  config.port = 0;
  config.data_dir = dir_ / "a";
  config.simulated_gpus = 2;
  config.sample_interval_ms = 50;
  NodeAggregator node(config);
  ASSERT_TRUE(node.initialize()) << node.lastError();
  EXPECT_FALSE(node.stopCapture());
  EXPECT_FALSE(node.lastError().empty());
  EXPECT_TRUE(node.exportTrace().path.empty());
  for (int round = 0; round < 2; ++round) {
    const size_t before = node.getEventCount();
    ASSERT_TRUE(node.startCapture()) << node.lastError();
    EXPECT_FALSE(node.startCapture()) << "one at a time";
    EXPECT_TRUE(eventually([&] { return node.isCapturing() && node.getEventCount() > before + 500; }));
    ASSERT_TRUE(node.stopCapture()) << node.lastError();
    const TraceRecord record = node.exportTrace();
    ASSERT_FALSE(record.path.empty()) << node.lastError();
    EXPECT_GT(record.event_count, 0u);
    const test::Row session = test::rows(record.path, "sessions").at(0);
    ClusterTimeline timeline;
    ASSERT_TRUE(timeline.open(record.path));
    std::string of;
    TraceEvent event;
    ASSERT_TRUE(timeline.next(of, event));
    EXPECT_EQ(of, "alone");
    EXPECT_GE(static_cast<int64_t>(event.timestamp + event.duration), session.i("ts_start") - 1'000'000);
    EXPECT_LE(static_cast<int64_t>(timeline.start_time), session.i("ts_end"));
    EXPECT_TRUE(eventually([&] { return !node.isCapturing(); }));
  }
}

TEST_F(Events, AProgramIsToldOfEveryEvent) {
  ::setenv("TRACESMITH_DIR", rings().c_str(), 1);
  ClusterMasterConfig config;
  config.listen_port = 0;
  config.heartbeat_interval_ms = 100;
  config.data_dir = dir_ / "m";
  ClusterMaster master(config);
  EXPECT_FALSE(master.subscribeToEvents([](const std::string&, const TraceEvent&) {}));
  ASSERT_TRUE(master.start()) << master.lastError();
  port_ = master.port();
  auto a = agent("alpha", {"--sim", "1"});
  ASSERT_TRUE(eventually([&] { return master.isNodeConnected("alpha"); }));
  std::atomic<uint64_t> seen{0};
  ASSERT_TRUE(master.subscribeToEvents([&](const std::string& node, const TraceEvent& event) {
    if (node == "alpha" && event.timestamp > 1'000'000'000'000'000'000u) ++seen;
  }));
  ASSERT_TRUE(master.startClusterCapture());
  EXPECT_TRUE(eventually([&] { return seen > 500; }));
  ASSERT_TRUE(master.stopClusterCapture()) << master.lastError();
  const TraceRecord record = master.collectAllTraces();
  EXPECT_TRUE(record.complete);
  EXPECT_EQ(record.nodes, std::vector<std::string>{"alpha"});
  EXPECT_TRUE(eventually([&] { return seen + master.eventsLost() >= record.event_count; }));
  EXPECT_EQ(master.eventsLost(), 0u);
  ClusterTimeline timeline = master.buildClusterTimeline();
  EXPECT_GE(timeline.event_count, record.event_count);
  EXPECT_EQ(master.getClusterCommMatrix().world_size, 0u) << "one rank has nobody to send to";
  master.unsubscribeFromEvents();
}

}  // namespace
}  // namespace tracesmith::cluster
