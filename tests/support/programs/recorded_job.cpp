// recorded_job FOLDER OUT.sbt: the trace that a recorder makes of the rings in a folder (N.ring, one for each rank).
#include <cstdio>
#include <filesystem>
#include <string>

#include "capture/collect/collector.hpp"
#include "tracesmith/trace/writer.hpp"

int main(int argc, char** argv) {
  using namespace tracesmith;
  if (argc != 3) return 2;
  auto failed = [](const Status& status) {
    std::fprintf(stderr, "recorded_job: %s\n", status.message().c_str());
    return 1;
  };
  auto writer = trace::Writer::create(argv[2]);
  if (!writer) return failed(writer.status());
  {
    capture::Collector collector(**writer, "node0");
    for (int rank = 0;; ++rank) {
      const std::string ring = std::string(argv[1]) + "/" + std::to_string(rank) + ".ring";
      if (!std::filesystem::exists(ring)) break;
      if (Status s = collector.follow(ring, false); !s) return failed(s);
    }
    if (auto taken = collector.snapshot(); !taken) return failed(taken.status());
    if (auto done = collector.finish(); !done) return failed(done);
  }
  if (Status s = (*writer)->close(); !s) return failed(s);
  return 0;
}
