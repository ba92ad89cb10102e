// The index and what is drawn from it, against the rows of the trace.
#include "server/timeline/timeline.hpp"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <map>

#include "support/process.hpp"
#include "support/small_job.hpp"
#include "support/table.hpp"
#include "tracesmith/trace/scan.hpp"
#include "tracesmith/trace/writer.hpp"

namespace tracesmith::server {
namespace {

class TimelineTest : public ::testing::Test {
 protected:
  std::unique_ptr<Timeline> open(const std::string& index = "") {
    Result<std::unique_ptr<Timeline>> t = Timeline::open(path_, index);
    EXPECT_TRUE(t.ok()) << t.status().message();
    EXPECT_TRUE((*t)->waitUntilReady().ok());
    return std::move(*t);
  }
  static TileQuery all(const Timeline& t, int64_t width) {
    TileQuery q{0, t.index().duration + 1, width, {}};
    for (uint32_t i = 0; i < t.index().tracks.size(); ++i) q.tracks.push_back(i);
    return q;
  }
  simdjson::dom::element parse(const std::string& text) {
    simdjson::dom::element e;
    EXPECT_EQ(parser_.parse(text).get(e), simdjson::SUCCESS) << text.substr(0, 300);
    return e;
  }
  /// What tiles say of a track: events and busy ns, from slices or buckets.
  struct Seen {
    int64_t count = 0;
    double busy = 0;
    bool slices = false;
  };
  std::map<int64_t, Seen> seen(const std::string& tiles, const TileQuery& q) {
    std::map<int64_t, Seen> out;
    const double width = static_cast<double>(q.to - q.from) / static_cast<double>(q.width);
    for (simdjson::dom::element track : parse(tiles)["tracks"]) {
      Seen& s = out[track["id"].get_int64()];
      s.slices = track["detail"].get_string().value() == "slices";
      for (simdjson::dom::element e : track[s.slices ? "slices" : "buckets"]) {
        s.count += s.slices ? 1 : e.at(2).get_int64().value();
        s.busy += s.slices ? e.at(1).get_double().value() : e.at(1).get_double().value() * width;
      }
    }
    return out;
  }

  test::TempDir dir_;
  std::string path_ = dir_ / "t.sbt";
  simdjson::dom::parser parser_;
};

TEST_F(TimelineTest, EveryRowIsOnOneTrack) {
  test::SmallJob job;
  job.clock_ns = {{1, 3'000'000'000}};  // one node's clock is three seconds ahead
  test::writeSmallJob(path_, job);
  auto t = open();
  std::map<TrackKind, uint64_t> events;
  for (const TrackIndex& track : t->index().tracks) events[track.key.kind] += track.events;
  EXPECT_EQ(events[TrackKind::collectives], test::rows(path_, "collectives").size());
  EXPECT_EQ(events[TrackKind::steps], test::rows(path_, "steps").size());
  EXPECT_EQ(
      events[TrackKind::stream] + events[TrackKind::thread] + events[TrackKind::gpu_ranges] + events[TrackKind::python],
      test::rows(path_, "events").size());
  // On one clock: the job is shorter than the difference of the clocks.
  EXPECT_LT(t->index().duration, 3'000'000'000);
}

TEST_F(TimelineTest, SlicesAreTheRowsThemselves) {
  test::writeSmallJob(path_, {});
  auto t = open();
  const TileQuery q = all(*t, 4096);
  uint64_t slices = 0;
  for (const auto& [track, s] : seen(t->tiles(q), q)) {
    EXPECT_TRUE(s.slices);
    EXPECT_EQ(static_cast<uint64_t>(s.count), t->index().tracks[static_cast<size_t>(track)].events);
    slices += static_cast<uint64_t>(s.count);
  }
  EXPECT_EQ(slices, t->events());
  // A window in the middle: those that touch it, no others.
  const int64_t from = t->index().duration / 3, to = t->index().duration / 2;
  TileQuery part = q;
  part.from = from;
  part.to = to;
  std::string names;
  for (simdjson::dom::element track : parse(t->tiles(part))["tracks"])
    for (simdjson::dom::element e : track["slices"]) {
      const int64_t ts = e.at(0).get_int64(), dur = e.at(1).get_int64();
      EXPECT_LT(ts, to);
      EXPECT_GE(ts + dur, from);
    }
}

TEST_F(TimelineTest, BucketsAddUpToWhatTheyStandFor) {
  ASSERT_EQ(test::tracesmith({"synth", "-o", path_, "--events", "300000", "--ranks", "4"}).rc, 0);
  auto t = open();
  TileQuery q = all(*t, 200);
  const std::string text = t->tiles(q);
  bool some = false;
  for (const auto& [id, s] : seen(text, q)) {
    const TrackIndex& track = t->index().tracks[static_cast<size_t>(id)];
    if (s.slices) continue;
    some = true;
    EXPECT_NEAR(static_cast<double>(s.count), static_cast<double>(track.events), 201) << id;  // each bucket rounds
    if (track.key.kind != TrackKind::stream) continue;
    double busy = 0;
    for (const BlockSummary& b : t->index().blocks)
      for (const NameStats& n : b.names)
        if (n.track == static_cast<uint32_t>(id)) busy += static_cast<double>(n.total);
    EXPECT_NEAR(s.busy / busy, 1, 0.05) << id;  // shares have three digits
  }
  EXPECT_TRUE(some);
}

TEST_F(TimelineTest, AnIndexIsKeptAndADamagedOneMadeAgain) {
  test::writeSmallJob(path_, {});
  const std::string file = path_ + ".tiles";
  std::string first, second;
  {
    auto t = open(file);
    first = t->tiles(all(*t, 100));
  }
  const std::string bytes = test::readFile(file);
  ASSERT_GT(bytes.size(), 1000u);
  {
    auto t = open(file);
    second = t->tiles(all(*t, 100));
  }
  EXPECT_EQ(first, second);
  for (size_t at : {size_t{3}, size_t{70}, bytes.size() / 2, bytes.size() - 1}) {
    std::string broken = bytes;
    broken[at] ^= 0x40;
    test::writeFile(file, broken);
    auto t = open(file);
    EXPECT_EQ(t->tiles(all(*t, 100)), first) << at;
  }
  test::writeFile(file, bytes.substr(0, bytes.size() / 2));
  auto t = open(file);
  EXPECT_EQ(t->tiles(all(*t, 100)), first);
}

/// A session that records: the file becomes longer, and is read on from where the last one ended.
TEST_F(TimelineTest, ATraceThatGrewIsTheWholeOne) {
  for (const bool mixed : {false, true}) {
    test::SmallJob job;
    job.clock_ns = {{1, 3'000'000'000}};
    if (mixed)
      test::writeSmallJob(path_, job);
    else
      ASSERT_EQ(test::tracesmith({"synth", "-o", path_, "--events", "400000", "--ranks", "4"}).rc, 0);
    auto whole = open();
    const std::string bytes = test::readFile(path_), copy = dir_ / (mixed ? "a.sbt" : "b.sbt");
    const size_t blocks = whole->reader().blocks().size();
    std::unique_ptr<Timeline> t;
    for (size_t part = 1; part <= 4; ++part) {
      const size_t until = part == 4 ? bytes.size() : whole->reader().blocks()[blocks * part / 4].offset;
      test::writeFile(copy, bytes.substr(0, until));
      Result<std::unique_ptr<Timeline>> next = Timeline::openGrowing(copy, t.get());
      ASSERT_TRUE(next.ok()) << next.status().message();
      ASSERT_TRUE((*next)->waitUntilReady().ok());
      t = std::move(*next);
    }
    EXPECT_EQ(t->describe("x", "x"), whole->describe("x", "x"));
    TileQuery q = all(*whole, 200);
    EXPECT_EQ(t->stats(q), whole->stats(q));
    q.from = whole->index().duration / 2;
    q.to = q.from + whole->index().duration / 500;
    EXPECT_EQ(t->tiles(q), whole->tiles(q));
    uint64_t buckets = 0;
    for (const TrackIndex& track : t->index().tracks)
      for (const Bucket& b : track.buckets) buckets += b.count;
    for (const TrackIndex& track : t->index().tracks) buckets += track.longs.size();
    EXPECT_EQ(buckets, whole->events());
  }
}

TEST_F(TimelineTest, StatisticsAreThoseOfTheTable) {
  test::writeSmallJob(path_, {});
  auto t = open();
  std::map<std::string, std::pair<int64_t, int64_t>> want;
  for (const test::Row& r : test::rows(path_, "events")) {
    auto& [count, total] = want[r.s("name")];
    ++count;
    total += r.null("dur") ? 0 : r.i("dur");
  }
  std::map<std::string, std::pair<int64_t, double>> found;
  const std::string text = t->stats(all(*t, 1));
  for (simdjson::dom::element e : parse(text)["by_name"]) {
    const std::string_view type = e["type"].get_string();
    if (type == "collective" || type == "step") continue;  // of other tables
    auto& [count, total] = found[std::string(e["name"].get_string().value())];
    count += e["count"].get_int64().value();
    total += e["total_ns"].get_double().value();
  }
  ASSERT_EQ(found.size(), want.size());
  for (const auto& [name, w] : want) {
    EXPECT_EQ(found[name].first, w.first) << name;
    EXPECT_NEAR(found[name].second, static_cast<double>(w.second), 1000.0 * static_cast<double>(w.first)) << name;
  }
}

TEST_F(TimelineTest, WhatIsNotKnownOfALaunchIsNull) {
  test::writeSmallJob(path_, {});  // its kernels have a grid of one known side
  auto t = open();
  const std::string hits = t->search({.text = "ALLREDUCE", .limit = 1});
  Result<std::string> event = t->event(std::string(parse(hits)["hits"].at(0)["row_id"].get_string().value()));
  ASSERT_TRUE(event.ok());
  const simdjson::dom::element e = parse(*event);
  for (const char* key : {"grid", "block", "registers", "shared_static", "shared_dynamic"})
    EXPECT_TRUE(e[key].is_null()) << key << " of " << *event;
}

TEST_F(TimelineTest, StacksAreCalledAfterTheirInnermostFrame) {
  {
    auto writer = trace::Writer::create(path_);
    ASSERT_TRUE(writer);
    auto out = (*writer)->appender();
    for (int64_t i = 0; i < 3; ++i) {
      trace::StackRow row;
      row.ts = 1000 * i;
      row.dur = 1000;
      row.rank = 4;
      row.tid = i == 2 ? 8 : 7;
      row.samples = 1;
      if (i != 1) row.stack = (*writer)->string("<module> (train.py:9);step (train.py:5)");
      ASSERT_TRUE(out->append(row).ok());
    }
    ASSERT_TRUE(out->flush().ok());
    ASSERT_TRUE((*writer)->close().ok());
  }
  auto t = open();
  ASSERT_EQ(t->index().tracks.size(), 2u);
  EXPECT_EQ(t->index().tracks[0].key.kind, TrackKind::stacks);
  EXPECT_EQ(t->index().tracks[0].events, 2u);
  const std::string found = t->search({.text = "STEP", .limit = 10});
  EXPECT_EQ(parse(found)["total"].get_uint64().value(), 2u) << found;
  EXPECT_NE(found.find("\"name\":\"step (train.py:5)\",\"type\":\"stack\""), std::string::npos) << found;
  EXPECT_EQ(parse(t->search({.text = "module", .limit = 10}))["total"].get_uint64().value(), 0u)
      << "the name that is shown";
  EXPECT_NE(t->describe("x", "x").find("\"name\":\"stacks of thread 7\""), std::string::npos);
}

TEST_F(TimelineTest, ACollectiveThatLaterOnesHavePassedIsNotInFlight) {
  {
    auto writer = trace::Writer::create(path_);
    ASSERT_TRUE(writer);
    auto out = (*writer)->appender();
    const auto op = (*writer)->string("all_reduce"), comm = (*writer)->string("world"),
               kernel = (*writer)->string("ncclDevKernel_AllReduce");
    for (int64_t i = 0; i < 6; ++i) {
      trace::CollectiveRow row;
      row.op = op;
      row.comm = comm;
      row.rank = 3;
      row.seq = i;
      row.ts_enqueue = 1000 * i;
      // The kernel of the third one was not found; the last two wait to this day.
      if (i != 2 && i < 4) {
        row.ts = 1000 * i + 500;
        row.dur = 400;
        row.name = kernel;
      }
      ASSERT_TRUE(out->append(row).ok());
    }
    trace::EventRow last;
    last.ts = 20'000;
    last.dur = 1000;
    last.rank = 3;
    ASSERT_TRUE(out->append(last).ok());
    // Where nothing happens any more, metrics tell how long the recording went on.
    trace::MetricRow metric;
    metric.ts = 50'000;
    metric.name = (*writer)->string("gpu_power_watts");
    metric.value = 0;
    ASSERT_TRUE(out->append(metric).ok());
    ASSERT_TRUE(out->flush().ok());
    ASSERT_TRUE((*writer)->close().ok());
  }
  auto t = open();
  std::vector<std::pair<int64_t, int64_t>> waiting;  // begin, end
  const std::string found = t->search({.text = "all_reduce", .type = kInFlightType});
  for (simdjson::dom::element h : parse(found)["hits"])
    waiting.emplace_back(h["ts_rel"].get_int64().value() + t->index().origin,
                         h["ts_rel"].get_int64().value() + h["dur"].get_int64().value() + t->index().origin);
  EXPECT_EQ(waiting, (std::vector<std::pair<int64_t, int64_t>>{{4000, 50'000}, {5000, 50'000}})) << found;
}

TEST_F(TimelineTest, LossesSayOfWhomAndWhen) {
  {
    auto writer = trace::Writer::create(path_);
    ASSERT_TRUE(writer);
    auto out = (*writer)->appender();
    trace::EventRow event;
    event.ts = 1000;
    event.dur = 9000;
    event.rank = 3;
    ASSERT_TRUE(out->append(event).ok());
    trace::LossRow loss;
    loss.rank = 3;
    loss.cause = (*writer)->string("ring full");
    loss.count = 5;
    ASSERT_TRUE(out->append(loss).ok());
    ASSERT_TRUE(out->append(loss).ok());
    loss.ts = 4000;
    ASSERT_TRUE(out->append(loss).ok());
    ASSERT_TRUE(out->flush().ok());
    ASSERT_TRUE((*writer)->close().ok());
  }
  auto t = open();
  const std::string text = t->describe("x", "x");
  const auto losses = parse(text)["losses"];
  ASSERT_EQ(losses.get_array().value().size(), 2u) << text;
  std::map<bool, int64_t> count;  // by whether the time is known
  for (simdjson::dom::element l : losses) {
    count[!l["ts_rel"].is_null()] = l["count"].get_int64().value();
    EXPECT_EQ(l["rank"].get_int64().value(), 3);
    if (l["ts_rel"].is_null()) continue;
    EXPECT_EQ(l["ts_rel"].get_int64().value(), 3000);
  }
  EXPECT_EQ(count, (std::map<bool, int64_t>{{false, 10}, {true, 5}}));
}

TEST_F(TimelineTest, SearchFindsAndAKernelKnowsItsCollective) {
  test::writeSmallJob(path_, {});
  auto t = open();
  const std::string text = t->search({.text = "ALLREDUCE", .limit = 5});  // any case
  const simdjson::dom::element hits = parse(text);
  EXPECT_EQ(hits["total"].get_int64().value(), 8 * 20);
  EXPECT_TRUE(hits["truncated"].get_bool().value());
  size_t n = 0;
  std::string row;
  for (simdjson::dom::element h : hits["hits"]) {
    ++n;
    row = std::string(h["row_id"].get_string().value());
  }
  EXPECT_EQ(n, 5u);
  Result<std::string> event = t->event(row);
  ASSERT_TRUE(event.ok()) << event.status().message();
  EXPECT_NE(event->find("ncclDevKernel_AllReduce"), std::string::npos) << *event;
  // Rows of the table `collectives` show all ranks of theirs.
  const std::string ops = t->search({.text = "all_reduce", .limit = 1});
  event = t->event(std::string(parse(ops)["hits"].at(0)["row_id"].get_string().value()));
  ASSERT_TRUE(event.ok());
  const std::string kept = *event;
  const simdjson::dom::element collective = parse(kept)["collective"];
  EXPECT_EQ(collective["op"].get_string().value(), "all_reduce");
  EXPECT_EQ(collective["arrivals"].get_array().value().size(), 8u) << kept;
  EXPECT_EQ(collective["arrivals"].at(7)["wait_ns"].get_int64().value(), 0);
  for (const char* id : {"", "e", "e1", "x0.0", "e0.99999999", "e-1.0", "e99999999999.0", "e0.x"})
    EXPECT_FALSE(t->event(id).ok()) << id;
}

}  // namespace
}  // namespace tracesmith::server
