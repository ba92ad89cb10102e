// How long a tile of the timeline takes: index made once, then windows from the whole trace to a millisecond, for the
// tracks of a screen (40) and for as many as may be asked for (256), with blocks not read before and read before. Then
// what it costs to look at one event, and to go on with a trace that has grown.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "measure.hpp"
#include "server/timeline/timeline.hpp"

using namespace tracesmith;
using namespace tracesmith::bench;
using Clock = std::chrono::steady_clock;

namespace {

double ms(Clock::time_point since) { return std::chrono::duration<double, std::milli>(Clock::now() - since).count(); }

double at(std::vector<double> v, double share) {
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, static_cast<size_t>(share * static_cast<double>(v.size())))];
}

std::unique_ptr<server::Timeline> open(const std::string& path, const std::string& index) {
  Result<std::unique_ptr<server::Timeline>> t = server::Timeline::open(path, index);
  if (t && (*t)->waitUntilReady()) return std::move(*t);
  std::fprintf(stderr, "cannot open %s\n", path.c_str());
  std::exit(1);
}

/// Kernels and collectives here and there: all about them, with nothing read before and again.
void measureEvents(const std::string& path, const std::string& index, int repeat) {
  std::unique_ptr<server::Timeline> t = open(path, index);
  std::mt19937_64 random(2);
  for (char table : {'e', 'c'}) {
    std::vector<double> fresh, again;
    std::vector<uint32_t> blocks;
    for (const server::BlockSummary& b : t->index().blocks)
      if (t->reader().blocks()[b.block].table->name[0] == table) blocks.push_back(b.block);
    for (int i = 0; i < repeat && !blocks.empty(); ++i) {
      t.reset();
      t = open(path, index);
      const uint32_t block = blocks[random() % blocks.size()];
      const std::string row =
          table + std::to_string(block) + "." + std::to_string(random() % t->reader().blocks()[block].rows);
      for (std::vector<double>* times : {&fresh, &again}) {
        const auto began = Clock::now();
        if (!t->event(row)) std::fprintf(stderr, "no event %s\n", row.c_str());
        times->push_back(ms(began));
      }
    }
    if (!fresh.empty())
      std::printf("all about one row of %s: first %.1f ms (p95 %.1f), again %.1f ms\n",
                  table == 'e' ? "events" : "collectives", at(fresh, 0.5), at(fresh, 0.95), at(again, 0.5));
  }
}

/// The trace cut off where a block ends, then longer and longer.
void measureGrowth(const std::string& path, const std::string& copy) {
  std::unique_ptr<server::Timeline> all = open(path, "");
  const auto blocks = all->reader().blocks();
  const std::string bytes = [&] {
    std::FILE* f = std::fopen(path.c_str(), "rb");
    std::string text(all->reader().fileSize(), '\0');
    text.resize(std::fread(text.data(), 1, text.size(), f));
    std::fclose(f);
    return text;
  }();
  std::unique_ptr<server::Timeline> t;
  uint64_t there = 0, before = 0;
  for (double share : {0.1, 0.5, 0.9, 0.92, 0.94, 0.96, 1.0}) {
    const uint64_t until =
        share == 1 ? bytes.size() : blocks[static_cast<size_t>(share * static_cast<double>(blocks.size() - 1))].offset;
    std::FILE* f = std::fopen(copy.c_str(), "ab");
    (void)!std::fwrite(bytes.data() + there, 1, until - there, f);
    std::fclose(f);
    there = until;
    const auto began = Clock::now();
    Result<std::unique_ptr<server::Timeline>> next = server::Timeline::openGrowing(copy, t.get());
    if (!next || !(*next)->waitUntilReady()) std::exit(1);
    t = std::move(*next);
    std::printf("grown to %.1f million rows, %.1f million of them new: %.0f ms\n",
                static_cast<double>(t->events()) / 1e6, static_cast<double>(t->events() - before) / 1e6, ms(began));
    before = t->events();
  }
  if (t->events() != all->events()) std::fprintf(stderr, "rows were lost on the way\n");
}

}  // namespace

int main(int argc, char** argv) {
  usage(argc, argv, "tile_bench [--trace FILE | --events N --ranks N] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  const std::string events = option(argc, argv, "--events", smoke ? "200000" : "100000000");
  const std::string ranks = option(argc, argv, "--ranks", smoke ? "8" : "512");
  std::string path = option(argc, argv, "--trace", "");
  char pattern[] = "/tmp/tracesmith-bench-XXXXXX";
  const std::string dir = ::mkdtemp(pattern);
  if (path.empty()) {
    path = dir + "/t.sbt";
    (void)measure([&] {
      ::dup2(::open("/dev/null", O_WRONLY), 1);
      ::execl(TRACESMITH_BIN, TRACESMITH_BIN, "synth", "-o", path.c_str(), "--events", events.c_str(), "--ranks",
              ranks.c_str(), nullptr);
      return 127;
    });
  }
  const std::string index = dir + "/t.tiles";
  const Cost made = measure([&] {
    (void)open(path, index);
    return 0;
  });
  struct stat st {};
  ::stat(index.c_str(), &st);
  const auto start = Clock::now();
  std::unique_ptr<server::Timeline> t = open(path, index);
  std::printf("%zu tracks, %llu rows; index: made in %.1f s (%.0f MB peak), %.0f MB on disk, opened in %.0f ms\n",
              t->index().tracks.size(), static_cast<unsigned long long>(t->events()), made.wall_s, made.peak_mb,
              static_cast<double>(st.st_size) / 1e6, ms(start));
  std::mt19937_64 random(1);
  const int64_t duration = t->index().duration;
  for (size_t tracks : {size_t{40}, size_t{256}}) {
    tracks = std::min(tracks, t->index().tracks.size());
    for (int64_t part : {1, 10, 100, 1000, 10000}) {
      std::vector<double> fresh, again;
      size_t bytes = 0;
      const int repeat = smoke ? 2 : 20;
      t.reset();
      t = open(path, index);  // nothing is cached
      for (int i = 0; i < repeat; ++i) {
        server::TileQuery q;
        const int64_t length = std::max<int64_t>(1000, duration / part);
        q.from = part == 1 ? 0 : static_cast<int64_t>(random() % static_cast<uint64_t>(duration - length));
        q.to = q.from + length + 1;
        q.width = 1500;
        const size_t first = random() % (t->index().tracks.size() - tracks + 1);
        for (size_t k = 0; k < tracks; ++k) q.tracks.push_back(static_cast<uint32_t>(first + k));
        auto began = Clock::now();
        bytes += t->tiles(q).size();
        fresh.push_back(ms(began));
        began = Clock::now();
        (void)t->tiles(q);
        again.push_back(ms(began));
      }
      std::printf(
          "%3zu tracks, 1/%-5lld of the trace: first %6.1f ms (p95 %6.1f), again %5.1f ms (p95 %5.1f), %7.0f kB\n",
          tracks, static_cast<long long>(part), at(fresh, 0.5), at(fresh, 0.95), at(again, 0.5), at(again, 0.95),
          static_cast<double>(bytes) / repeat / 1e3);
    }
  }
  t.reset();
  measureEvents(path, index, smoke ? 2 : 20);
  measureGrowth(path, dir + "/growing.sbt");
  (void)std::system(("rm -rf " + dir).c_str());
}
