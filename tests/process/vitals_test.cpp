// tracesmith ps, and what it reads.
#include <signal.h>

#include <regex>

#include "process/vitals.hpp"
#include "pythons.hpp"
#include "support/training_ring.hpp"
#include "support/tree.hpp"

namespace tracesmith::test {
namespace {

using namespace process;

TEST(Placement, OfContainersPodsAndSlurm) {
  const std::string id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", brief = "0123456789ab";
  EXPECT_EQ(placementOf("0::/system.slice/docker-" + id + ".scope\n"), (Placement{brief, "", ""}));
  EXPECT_EQ(placementOf("12:cpu:/docker/" + id + "\n11:memory:/docker/" + id + "\n"), (Placement{brief, "", ""}));
  EXPECT_EQ(
      placementOf("0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1b2c_3d.slice/cri-containerd-" +
                  id + ".scope\n"),
      (Placement{brief, "1b2c-3d", ""}));
  EXPECT_EQ(placementOf("3:memory:/kubepods/besteffort/pod1b2c-3d/" + id + "\n"), (Placement{brief, "1b2c-3d", ""}));
  EXPECT_EQ(placementOf("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"),
            (Placement{"", "", "4711"}));
  EXPECT_EQ(placementOf("0::/user.slice/user-1000.slice/session-2.scope\n"), Placement());
  EXPECT_EQ(placementOf(""), Placement());
}

TEST(Vitals, OfAProcessWhoseNameHasBrackets) {
  TempDir root;
  std::filesystem::create_directories(root / "proc/77");
  writeFile(root / "proc/77/stat", "77 (a) b) D 1 77 77 0 -1 4194304 1 0 0 0 30 12 0 0 20 0 9 0 100 1 1\n");
  const std::optional<Vitals> v = vitals(root.path(), 77);
  ASSERT_TRUE(v);
  EXPECT_EQ(v->state, 'D');
  EXPECT_EQ(v->cpu_ticks, 42u);
  EXPECT_EQ(v->threads, 9);
  EXPECT_FALSE(vitals(root.path(), 78));
}

TEST(Ps, ListsPythonProcessesWithTheirRankAndState) {
  if (pythons().empty()) GTEST_SKIP() << "no Python here";
  const auto child =
      startPython(pythons().begin()->second, std::string("import time\n") + kReady + "time.sleep(1000)\n",
                  {{"RANK", "5"},
                   {"SLURM_PROCID", "9"},  // of the launcher around the one that gave the rank
                   {"SLURM_JOB_ID", "4711"},
                   {"SLURM_STEP_ID", "2"},
                   {"POD_NAME", "train-0"},
                   {"POD_NAMESPACE", "ml"}});
  child->signal(SIGSTOP);
  ASSERT_TRUE(eventually([&] { return vitals("", child->pid())->state == 'T'; }));
  for (const char* name : {"ps", "list"}) {
    const Output out = tracesmith({name, "--json"});
    EXPECT_EQ(out.rc, 0) << out.err;
    const size_t at = out.out.find("{\"pid\":" + std::to_string(child->pid()) + ",");
    ASSERT_NE(at, std::string::npos) << out.out;
    const std::string row = out.out.substr(at, out.out.find('}', at) - at);
    for (const char* field : {"\"rank\":5,", "\"job\":\"4711\"", "\"job_step\":\"2\"", "\"pod_name\":\"train-0\"",
                              "\"pod_namespace\":\"ml\"", "\"state\":\"T\"", "\"python\":true", "\"step\":null",
                              "\"gpus\":[]", "\"gpu_memory_bytes\":null", "\"probe\":null"})
      EXPECT_NE(row.find(field), std::string::npos) << field << " in " << row;
  }
  const Output table = tracesmith({"ps"});
  EXPECT_TRUE(std::regex_search(table.out, std::regex("\n *" + std::to_string(child->pid()) + " "))) << table.out;
}

// Also one that is out of sight: in another container, or of another machine's description.
TEST(Ps, ListsProcessesOnGpus) {
  if (exists("/proc/4242")) GTEST_SKIP() << "the described process has the number of a real one";
  const Output out =
      runWith({{"TRACESMITH_NVML", fakeNvml()}, {"TRACESMITH_FAKE_NVML", nvmlDescription("h100-nvswitch")}},
              {TRACESMITH_BIN, "ps", "--json"});
  EXPECT_EQ(out.rc, 0) << out.err;
  const size_t at = out.out.find("{\"pid\":4242,");
  ASSERT_NE(at, std::string::npos) << out.out;
  const std::string row = out.out.substr(at, out.out.find('}', at) - at);
  EXPECT_EQ(row.find("\"gpus\":[]"), std::string::npos) << row;
  EXPECT_EQ(row.find("\"gpu_memory_bytes\":null"), std::string::npos) << row;
  EXPECT_NE(row.find("\"state\":null"), std::string::npos) << row;
}

TEST(Ps, ShowsTheStepOfAProcessUnderTheProbe) {
  TempDir dir;
  TrainingRing ring(dir / "1.ring", 3, "trainer");
  ring.step(7);
  const Output out = runWith({{"TRACESMITH_DIR", dir.path()}}, {TRACESMITH_BIN, "ps", "--json"});
  EXPECT_EQ(out.rc, 0) << out.err;
  EXPECT_NE(out.out.find("\"rank\":3,\"role\":\"trainer\",\"step\":7,\"step_age_s\":"), std::string::npos) << out.out;
}

}  // namespace
}  // namespace tracesmith::test
