#include <cstdlib>
#include <filesystem>

#include "hardware/capability.hpp"
#include "hardware/inventory.hpp"
#include "hardware/nvidia/nccl_version.hpp"
#include "support/process.hpp"
#include "support/tree.hpp"
#include "tracesmith/cluster/gpu_topology.hpp"

#include <gtest/gtest.h>

namespace tracesmith::hardware {
namespace {

using cluster::GPULink;
using cluster::GPULinkType;
using cluster::GPUTopology;

class Topology : public testing::Test {
 protected:
  Inventory machine(const std::string& name) {
    ::setenv("TRACESMITH_FAKE_NVML", test::nvmlDescription(name).c_str(), 1);
    Places places;
    places.root = dir_.path();  // nothing of the machine the test runs on
    places.nvml = test::fakeNvml();
    places.node = "golden";
    return discover(places);
  }
  GPUTopology topology(const std::string& name) { return GPUTopology(machine(name)); }
  test::TempDir dir_;
};

TEST_F(Topology, LooksAsItAlwaysDid) {
  for (const char* name : {"h100-nvswitch", "a100-mesh", "v100-cube", "pcie-only", "mig"}) {
    const GPUTopology t = topology(name);
    const std::string golden = TRACESMITH_SOURCE_DIR "/tests/data/hardware/topo/" + std::string(name);
    if (std::getenv("TRACESMITH_UPDATE_GOLDEN")) {
      test::writeFile(golden + ".txt", t.toASCII());
      test::writeFile(golden + ".json", t.toJSON() + "\n");
      test::writeFile(golden + ".dot", t.toGraphviz());
    }
    EXPECT_EQ(t.toASCII(), test::readFile(golden + ".txt")) << name;
    EXPECT_EQ(t.toJSON() + "\n", test::readFile(golden + ".json")) << name;
    EXPECT_EQ(t.toGraphviz(), test::readFile(golden + ".dot")) << name;
    EXPECT_NE(t.toSVG().find("GPU 0"), std::string::npos);
  }
}

TEST_F(Topology, FindsNvSwitchByTheRemoteEndsOfLinks) {
  const GPUTopology t = topology("h100-nvswitch");
  EXPECT_TRUE(t.getTopology().has_nvswitch);
  EXPECT_EQ(t.getLinkType(0, 7), GPULinkType::NVSwitch);
  EXPECT_EQ(t.getLink(2, 5)->link_count, 18u);
  EXPECT_NEAR(t.getBandwidth(0, 7).value(), 18 * 26.562, 0.01);  // as read, not as the generation promises
  EXPECT_FALSE(t.getLink(0, 7)->measured_bandwidth.has_value());
  EXPECT_TRUE(t.canAccessPeer(0, 7));
}

TEST_F(Topology, KnowsWhatTheBenchMeasured) {
  ::setenv("TRACESMITH_FAKE_NVML", test::nvmlDescription("h100-nvswitch").c_str(), 1);
  ::setenv("TRACESMITH_NVML", test::fakeNvml().c_str(), 1);
  ::setenv("TRACESMITH_ROOT", dir_.path().c_str(), 1);
  ::setenv("TRACESMITH_DATA", (dir_ / "data").c_str(), 1);
  Capability measured;
  measured.set({"link_gbps", "GB/s", "0-1", 371.5, 370, 372, 5});
  measured.set({"link_gbps", "GB/s", "1-0", 365.25, 360, 370, 5});
  ASSERT_TRUE(saveCapability(capabilityPath(discover(Places::fromEnvironment()).node), measured).ok());
  GPUTopology t;
  EXPECT_TRUE(t.discover());
  EXPECT_EQ(t.getLink(0, 1)->measured_bandwidth, 365.25) << "the slower of the two directions";
  EXPECT_EQ(t.getBandwidth(1, 0), 365.25);
  EXPECT_FALSE(t.getLink(0, 2)->measured_bandwidth.has_value());
  EXPECT_TRUE(t.lastStatus().ok());
  ::setenv("TRACESMITH_NVML", "/no/such/libnvidia-ml.so.1", 1);
  EXPECT_FALSE(t.discover());
  EXPECT_EQ(t.lastStatus().code(), Code::kNotFound);
  EXPECT_NE(t.lastError().find("no GPU found: no NVIDIA driver"), std::string::npos) << t.lastError();
  for (const char* name : {"TRACESMITH_NVML", "TRACESMITH_ROOT", "TRACESMITH_DATA"}) ::unsetenv(name);
}

TEST_F(Topology, FindsTheNewestNcclByTheNamesOfFiles) {
  EXPECT_EQ(installedNccl(dir_.path()), "");
  for (const char* file : {"usr/lib/x86_64-linux-gnu/libnccl.so.2.9.8",
                           "usr/local/lib/python3.11/dist-packages/nvidia_nccl_cu12-2.21.5.dist-info/METADATA",
                           "usr/lib/x86_64-linux-gnu/libnccl.so.2.x"}) {
    std::filesystem::create_directories(std::filesystem::path(dir_ / file).parent_path());
    test::writeFile(dir_ / file, "");
  }
  EXPECT_EQ(installedNccl(dir_.path()), "2.21.5");
}

TEST_F(Topology, GoesAroundWhereThereIsNoDirectLink) {
  const GPUTopology t = topology("v100-cube");
  EXPECT_EQ(t.getLinkType(0, 7), GPULinkType::PCIe);
  EXPECT_EQ(t.getLinkType(0, 4), GPULinkType::NVLink2);
  EXPECT_EQ(t.getOptimalPath(0, 7), (std::vector<uint32_t>{0, 4, 7}));  // two links each, better than 0-3-7
  EXPECT_NEAR(t.getPathBandwidth(0, 7).value(), 2 * 25.781, 0.01);
  EXPECT_EQ(t.getOptimalPath(0, 1), (std::vector<uint32_t>{0, 3, 2, 1}));  // two links all the way; direct is one
  EXPECT_EQ(t.getOptimalPath(3, 3), (std::vector<uint32_t>{3}));
  EXPECT_TRUE(t.getOptimalPath(0, 8).empty());
  const double s = t.estimateTransferTime(0, 4, 1'000'000'000).value();
  EXPECT_NEAR(s, 1.0 / (2 * 25.781), 1e-4);
}

TEST_F(Topology, OverPcieGoesTheHostWithoutPeerAccess) {
  const GPUTopology t = topology("pcie-only");
  EXPECT_FALSE(t.canAccessPeer(0, 1));
  EXPECT_EQ(t.getLinkType(0, 3), GPULinkType::PCIe);
  EXPECT_EQ(t.getOptimalPath(0, 3), (std::vector<uint32_t>{0, 3}));
  EXPECT_NEAR(t.getBandwidth(0, 1).value(), 16 * 1.9692, 0.01);
  EXPECT_NEAR(t.getBandwidth(0, 3).value(), 8 * 1.9692, 0.01);  // the narrower slot
}

TEST_F(Topology, ASpeedThatNobodyToldIsNotZero) {
  Inventory of = machine("a100-mesh");
  of.gpus[0].links[0].speed_mbps = kUnknown;
  const GPUTopology t(of);
  const GPULink* link = nullptr;
  for (uint32_t other = 1; other < 4 && !(link && !link->bandwidth_gbps); ++other) link = t.getLink(0, other);
  ASSERT_TRUE(link);
  EXPECT_FALSE(link->bandwidth_gbps.has_value());
  EXPECT_FALSE(t.getBandwidth(link->gpu_a, link->gpu_b).has_value());
  EXPECT_NE(t.toGraphviz().find("NV4, unknown"), std::string::npos) << t.toGraphviz();
  EXPECT_NE(t.toSVG().find("speed unknown"), std::string::npos);
  EXPECT_FALSE(t.getPathBandwidth(0, 9).has_value());
}

TEST_F(Topology, TakesWhatWasMeasured) {
  GPUTopology t = topology("a100-mesh");
  t.setMeasured({{{0, 1}, 92.5}, {{1, 0}, 91.0}});
  EXPECT_DOUBLE_EQ(t.getLink(0, 1)->measured_bandwidth.value(), 91.0);  // the slower direction
  EXPECT_DOUBLE_EQ(t.getBandwidth(1, 0).value(), 91.0);
  EXPECT_FALSE(t.getLink(0, 2)->measured_bandwidth.has_value());
}

TEST_F(Topology, KnowsHowNearNicsAre) {
  test::makeTree("host", dir_.path());
  const Inventory v = machine("a100-mesh");
  ASSERT_EQ(v.nics.size(), 2u);
  EXPECT_EQ(v.nics[0].name, "mlx5_0");
  EXPECT_EQ(v.nics[0].speed_mbit, 400000);
  EXPECT_EQ(v.nics[0].state, "up");
  EXPECT_EQ(v.nics[1].state, "down");
  EXPECT_EQ(v.gpu(0)->numa, 0);
  EXPECT_EQ(v.gpu(1)->numa, 1);
  ASSERT_GE(v.nic_nearness.size(), 2u);
  EXPECT_EQ(v.nic_nearness[0].nearness, Nearness::single_switch);  // GPU 0 and the NIC share a bridge
  EXPECT_EQ(v.nic_nearness[1].nearness, Nearness::system);
  ASSERT_EQ(v.disks.size(), 1u);
  EXPECT_EQ(v.disks[0].kind, "nvme");
}

TEST_F(Topology, CountsMultiprocessorsByTheirCores) {
  test::writeFile(dir_ / "one.txt", "gpus = 1\nname = NVIDIA H200\ncc = 9.0\nunsupported = attributes\n");
  ::setenv("TRACESMITH_FAKE_NVML", (dir_ / "one.txt").c_str(), 1);
  Places places;
  places.root = dir_.path();
  places.nvml = test::fakeNvml();
  EXPECT_EQ(discover(places).gpus.at(0).multiprocessors, 132);
}

TEST_F(Topology, ListsMigInstances) {
  const Inventory v = machine("mig");
  ASSERT_EQ(v.gpus.size(), 1u);
  EXPECT_TRUE(v.gpus[0].mig);
  ASSERT_EQ(v.gpus[0].instances.size(), 3u);
  EXPECT_EQ(v.gpus[0].instances[1].memory_bytes, 10737418240);
  EXPECT_EQ(v.gpus[0].instances[1].multiprocessors, 28);
}

TEST_F(Topology, WithoutADriverThereIsANoteAndNoGpu) {
  Places places;
  places.root = dir_.path();
  places.nvml = dir_ / "no-such-library.so";
  const Inventory v = discover(places);
  EXPECT_TRUE(v.gpus.empty());
  ASSERT_EQ(v.notes.size(), 1u);
  EXPECT_NE(v.notes[0].find("no NVIDIA driver"), std::string::npos);
  EXPECT_EQ(GPUTopology(v).toASCII(), "No GPU found.\n");
}

}  // namespace
}  // namespace tracesmith::hardware
