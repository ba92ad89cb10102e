// `tracesmith run` as one of several tasks: srun and mpirun are played by environment variables. The real Slurm is in
// tests/integration/test_slurm.py.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "cli/run_fixture.hpp"

namespace tracesmith {
namespace {

namespace fs = std::filesystem;

class TaskPart : public RunTest {
 protected:
  /// A task of srun that runs a program with a kernel.
  Output task(int number, int tasks, const Command& flags = {}, const std::string& step = "0") const {
    return test::runWith(environment({{"SLURM_JOB_ID", "77"},
                                      {"SLURM_STEP_ID", step},
                                      {"SLURM_PROCID", std::to_string(number)},
                                      {"SLURM_LOCALID", std::to_string(number)},
                                      {"SLURM_STEP_NUM_TASKS", std::to_string(tasks)}}),
                         argv(flags));
  }
  Command argv(const Command& flags) const {
    Command all = {TRACESMITH_BIN, "run", "-o", trace(), "--no-telemetry"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), {"--", kFakeCuda, "kernels 3"});
    return all;
  }
  std::set<int64_t> ranks() const {
    std::set<int64_t> all;
    for (const Row& row : rows(trace(), "processes")) all.insert(row.i("rank"));
    return all;
  }
  std::string folder(const std::string& step = "0") const { return trace() + ".parts-77." + step; }
};

TEST_F(TaskPart, TheLastTaskJoinsTheParts) {
  const Output first = task(0, 2);
  ASSERT_EQ(first.rc, 0) << first.err;
  // The other one was not there yet: the trace has what there is, and says so.
  EXPECT_NE(first.err.find("1 of 2 tasks is not recorded, or not yet"), std::string::npos) << first.err;
  EXPECT_EQ(ranks(), std::set<int64_t>{0});
  EXPECT_EQ(test::losses(trace()).at("missing task"), 1);
  const Output second = task(1, 2);
  ASSERT_EQ(second.rc, 0) << second.err;
  EXPECT_NE(second.err.find("t.sbt: 2 tasks on 1 node"), std::string::npos) << second.err;
  EXPECT_EQ(ranks(), (std::set<int64_t>{0, 1}));
  EXPECT_FALSE(test::losses(trace()).contains("missing task"));
  EXPECT_FALSE(exists(folder()));
  for (const Row& row : rows(trace(), "processes")) {
    EXPECT_EQ(row.s("job"), "77");
    EXPECT_EQ(row.s("job_step"), "0");
    EXPECT_EQ(row.i("world_size"), 2);
  }
}

TEST_F(TaskPart, ATaskThatStillRecordsIsWaitedFor) {
  ASSERT_EQ(task(0, 3).rc, 0);
  fs::remove(trace());
  test::writeFile(folder() + "/2.recording", "");
  EXPECT_EQ(task(1, 3).err, "");  // task 2 will join
  EXPECT_FALSE(exists(trace()));
  // One that has shown no sign of life for long is dead.
  fs::last_write_time(folder() + "/2.recording", fs::file_time_type::clock::now() - std::chrono::minutes(5));
  const Output again = task(1, 3);
  EXPECT_NE(again.err.find("task 2 did not end its recording"), std::string::npos) << again.err;
  EXPECT_EQ(ranks(), (std::set<int64_t>{0, 1}));
}

TEST_F(TaskPart, TheTraceOfAnotherStartIsNotOverwritten) {
  ASSERT_EQ(task(0, 2, {}, "9").rc, 0);
  const std::string before = test::readFile(trace());
  const Output refused = task(0, 2);
  EXPECT_EQ(refused.rc, 2) << refused.err;
  EXPECT_NE(refused.err.find("--force"), std::string::npos) << refused.err;
  EXPECT_TRUE(test::readFile(trace()) == before);
  EXPECT_FALSE(exists(folder()));
  EXPECT_EQ(task(0, 2, {"--force"}).rc, 0);
  EXPECT_EQ(ranks(), std::set<int64_t>{0});
}

TEST_F(TaskPart, NeedsANameForTheTrace) {
  const Output out = test::runWith(
      environment(
          {{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
      {TRACESMITH_BIN, "run", "--", "true"});
  EXPECT_EQ(out.rc, 2);
  EXPECT_NE(out.err.find("give -o FILE.sbt"), std::string::npos) << out.err;
}

TEST_F(TaskPart, RanksOfOpenMpiUnderSlurmAreThoseOfOpenMpi) {
  // What orted got from srun, and its ranks inherit.
  Environment all = {{"SLURM_JOB_ID", "77"},        {"SLURM_STEP_ID", "0"},
                     {"SLURM_PROCID", "0"},         {"SLURM_STEP_NUM_TASKS", "3"},
                     {"PMIX_NAMESPACE", "ns/1"},    {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}};
  ASSERT_EQ(test::runWith(environment(all), argv({})).rc, 0);
  EXPECT_TRUE(exists(trace() + ".parts-ns-1"));
  all[6].second = "1";
  ASSERT_EQ(test::runWith(environment(all), argv({})).rc, 0);
  EXPECT_EQ(ranks(), (std::set<int64_t>{0, 1}));
  EXPECT_FALSE(exists(trace() + ".parts-ns-1"));
}

TEST_F(TaskPart, PartsAreJoinedByHand) {
  ASSERT_EQ(task(0, 3).rc, 0);
  ASSERT_EQ(task(1, 3).rc, 0);
  const Output joined = test::tracesmith({"import", "-o", trace(), "--force", folder()});
  EXPECT_EQ(joined.rc, 0) << joined.err;
  EXPECT_EQ(ranks(), (std::set<int64_t>{0, 1}));
  // Traces that are named are joined, too.
  const Output named = test::tracesmith({"import", "-o", dir_ / "b.sbt", "--json", trace(), folder() + "/0.sbt"});
  EXPECT_EQ(named.rc, 0) << named.err;
  EXPECT_NE(named.out.find("\"files\":2"), std::string::npos) << named.out;
  EXPECT_EQ(rows(dir_ / "b.sbt", "processes").size(), 3u);
}

}  // namespace
}  // namespace tracesmith
