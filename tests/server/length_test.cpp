// A recording has one length, whoever is asked: `info`, `analyze`, the page.
#include <simdjson.h>

#include "server/server_fixture.hpp"

namespace tracesmith::server {
namespace {

class Length : public ServerFixture {
 protected:
  simdjson::dom::element parse(const std::string& text) {
    simdjson::dom::element e;
    EXPECT_EQ(parser_.parse(text).get(e), simdjson::SUCCESS) << text.substr(0, 300);
    return e;
  }
  simdjson::dom::parser parser_;
};

TEST_F(Length, IsTheSameEverywhere) {
  const std::string path = dir_ / "t.sbt";
  test::SmallJob job;
  job.clock_ns = {{1, 7'000'000'000}};
  job.never_comes = 3;  // rows after the last step
  job.more = [](test::JobWriter& w) { w.metric(0, 0, "gpu_power_watts", 60'000'000'000, 300); };
  test::writeSmallJob(path, job);

  const std::string info = test::tracesmith({"info", path, "--json"}).out;
  const simdjson::dom::element summary = parse(info);
  const int64_t length = summary["end_ns"].get_int64().value() - summary["start_ns"].get_int64().value();
  EXPECT_NEAR(static_cast<double>(length), 10e9, 1e9) << "without the telemetry after it";

  const std::string analysis = test::tracesmith({"analyze", path, "--json"}).out;
  EXPECT_NEAR(parse(analysis)["duration_us"].get_double().value(), static_cast<double>(length) / 1000, 0.001);

  serveFile(path);
  const std::string page = get(http_, trace("/timeline")).body;
  EXPECT_EQ(parse(page)["duration_ns"].get_int64().value(), length);
}

}  // namespace
}  // namespace tracesmith::server
