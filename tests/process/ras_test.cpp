// What NCCL's RAS answers, as its source writes it and as it should not be.
#include "process/ras.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/process.hpp"

namespace tracesmith::process {
namespace {

const std::string kAnswer = R"(SERVER PROTOCOL 2
OK
OK
{
  "nccl_version": "2.29.1",
  "cuda_runtime_version": 13000,
  "timestamp": "2026-11-19 13:06:53",
  "communicators_count": 1,
  "communicators": [
    {
      "hash": "0xae94423cfbb2ef4a",
      "secondary_hash": "0xb7e7187447156001:0xb8242ed28a71381e",
      "size": 2,
      "ranks_count": 1,
      "missing_ranks_count": 1,
      "ranks": [
        {
          "rank": 0,
          "host": "10.0.0.1",
          "pid": 1524344,
          "cuda_dev": 0,
          "status": { "init_state": 0, "abort_flag": false },
          "collective_counts": {
            "Broadcast": 3,
            "AllReduce": 6650
          }
        }
      ],
      "missing_ranks": [
        { "rank": 1, "host": "10.0.0.1", "pid": 1524345, "status": { "unresponsive": true } }
      ]
    }
  ],
  "ras": { "collection_time_sec": 0.000, "timeouts_count": 0 }
}
)";

void expectAnswer(const std::string& text) {
  const Result<RasAnswer> answer = parseRas(text);
  ASSERT_TRUE(answer) << answer.status().message();
  EXPECT_EQ(answer->nccl, "2.29.1");
  ASSERT_EQ(answer->communicators.size(), 1u);
  const RasCommunicator& c = answer->communicators[0];
  EXPECT_EQ(c.hash, 0xae94423cfbb2ef4aull);
  EXPECT_EQ(c.size, 2);
  ASSERT_EQ(c.ranks.size(), 2u);
  EXPECT_EQ(c.ranks[0].host, "10.0.0.1");
  EXPECT_EQ(c.ranks[0].pid, 1524344);
  EXPECT_FALSE(c.ranks[0].missing);
  EXPECT_EQ(c.ranks[0].launched,
            (std::vector<std::pair<std::string, uint64_t>>{{"Broadcast", 3}, {"AllReduce", 6650}}));
  EXPECT_EQ(c.ranks[1].rank, 1);
  EXPECT_TRUE(c.ranks[1].missing);
  EXPECT_TRUE(c.ranks[1].launched.empty());
}

TEST(Ras, AnswersNameCommunicatorsRanksAndWhatTheyLaunched) { expectAnswer(kAnswer); }

TEST(Ras, AMissingCommaIsForgiven) {
  for (size_t at = kAnswer.find(",\n"); at != std::string::npos; at = kAnswer.find(",\n", at + 1)) {
    std::string text = kAnswer;
    text.erase(at, 1);
    expectAnswer(text);
  }
}

TEST(Ras, AnAnswerThatIsCutOffIsAnError) {
  const size_t begin = kAnswer.find('{'), end = kAnswer.rfind('}');
  for (size_t n = 0; n < end; ++n) EXPECT_FALSE(parseRas(kAnswer.substr(0, n))) << n << " of " << end << ' ' << begin;
  EXPECT_FALSE(parseRas("SERVER PROTOCOL 2\nERROR: Unknown command\nNCCL version 2.24.3 compiled with CUDA 12.8\n"));
}

TEST(Ras, NonsenseIsBounded) {
  EXPECT_FALSE(parseRas(std::string(1 << 20, '{')));
  EXPECT_FALSE(parseRas("{\"communicators\":" + std::string(1 << 20, '[')));
  for (size_t at = 0; at < kAnswer.size(); ++at)
    for (const char c : {'{', '"', ']', ':', '\\', '9'}) {
      std::string text = kAnswer;
      text[at] = c;
      (void)parseRas(text);  // whatever it says, it comes back
    }
}

class RasProc : public ::testing::Test {
 protected:
  void process(int64_t pid, const std::string& ns_pid, int uid, const std::string& environment = "") {
    const std::string folder = root_ / ("proc/" + std::to_string(pid));
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/status") << "Name:\tpython3\nUid:\t" << uid << "\t0\t0\t0\nNSpid:\t" << ns_pid << "\n";
    std::ofstream(folder + "/environ") << environment;
  }
  test::TempDir root_;
};

TEST_F(RasProc, PortsAreNcclsOwnAndThoseOfTheJobs) {
  using namespace std::string_literals;
  process(10, "10", 1000, "PATH=/bin\0NCCL_RAS_ADDR=localhost:4711\0"s);
  process(11, "11", 1000, "NCCL_RAS_ADDR=[::1]:4712\0NCCL_RAS_ADDRESS=x:1\0"s);
  process(12, "12", 1000, "NCCL_RAS_ADDR=nonsense\0NCCL_RAS_ENABLE=1\0"s);
  process(13, "13", 1000, "XNCCL_RAS_ADDR=localhost:4713\0"s);
  EXPECT_EQ(rasPorts(root_ / ""), (std::set<uint16_t>{4711, 4712, 28028}));
}

TEST_F(RasProc, AProcessIsFoundByTheNumberItsContainerHasForIt) {
  process(7, "7", 0);
  process(4100, "4100 7", 1000);
  process(4200, "4200 7", 1001);
  process(4300, "4300 8", 1000);
  process(4400, "4400 8", 1000);
  process(4500, "4500", 1000);
  EXPECT_EQ(hostPid(root_ / "", 7, 1000), 4100) << "another user's 7 is another process";
  EXPECT_EQ(hostPid(root_ / "", 7, 0), 7);
  EXPECT_EQ(hostPid(root_ / "", 4500, 1000), 4500);
  EXPECT_EQ(hostPid(root_ / "", 4500, 1001), std::nullopt) << "one user does not speak for another";
  EXPECT_EQ(hostPid(root_ / "", 8, 1000), std::nullopt) << "two containers of one user";
  EXPECT_EQ(hostPid(root_ / "", 9, 1000), std::nullopt);
}

}  // namespace
}  // namespace tracesmith::process
