// Vendors and host counters that are read from files: trees as their kernels show them.
#include <cmath>
#include <filesystem>

#include "hardware/drm/sources.hpp"
#include "hardware/host/sources.hpp"
#include "hardware/inventory.hpp"
#include "support/process.hpp"
#include "support/tree.hpp"

#include <gtest/gtest.h>

namespace tracesmith::hardware {
namespace {

class Files : public testing::Test {
 protected:
  Inventory look(const std::string& tree) {
    test::makeTree(tree, dir_.path());
    Places places;
    places.root = dir_.path();
    places.nvml = dir_ / "none.so";
    return discover(places);
  }
  /// All values of one reading, by "name" or "name/part".
  std::map<std::string, double> read(Source& source, int64_t ts_ns = 1'000'000'000) {
    std::map<std::string, double> out;
    for (Rate rate : {Rate::fast, Rate::slow, Rate::rare}) {
      batch_.begin(ts_ns, source.device());
      status_ = source.read(rate, batch_);
      for (const Sample& s : batch_.samples())
        out[s.metric->name + (s.part.empty() ? "" : "/" + std::string(s.part))] = s.value;
      if (!status_) break;
    }
    return out;
  }
  void write(const std::string& path, const std::string& text) { test::writeFile(dir_ / path, text); }

  test::TempDir dir_;
  Batch batch_;
  Status status_;
};

TEST_F(Files, Amd) {
  const Inventory v = look("amd");
  ASSERT_EQ(v.gpus.size(), 2u);
  EXPECT_EQ(v.gpus[0].name, "AMD Instinct MI250X");
  EXPECT_EQ(v.gpus[0].vendor, "amd");
  EXPECT_EQ(v.gpus[0].memory_bytes, 68702699520);
  EXPECT_EQ(v.gpus[0].pcie_generation, 4);
  EXPECT_EQ(v.gpus[0].numa, 3);
  EXPECT_EQ(v.gpus[0].power_limit_watts, 560);
  EXPECT_EQ(v.gpus[1].pcie_generation, kUnknown);
  ASSERT_NE(v.pair(0, 1), nullptr);
  EXPECT_EQ(v.pair(0, 1)->nearness, Nearness::node);  // other root ports, one NUMA node

  std::unique_ptr<Source> source = drmSource(dir_.path(), v.gpus[0]);
  ASSERT_NE(source, nullptr);
  std::map<std::string, double> s = read(*source);
  EXPECT_DOUBLE_EQ(s["gpu_utilization_percent"], 73);
  EXPECT_DOUBLE_EQ(s["gpu_power_watts"], 312);
  EXPECT_DOUBLE_EQ(s["gpu_temperature_celsius"], 52);
  EXPECT_DOUBLE_EQ(s["gpu_temperature_celsius/junction"], 61);
  EXPECT_DOUBLE_EQ(s["gpu_memory_temperature_celsius"], 64);
  EXPECT_DOUBLE_EQ(s["gpu_sm_clock_mhz"], 1650);
  EXPECT_DOUBLE_EQ(s["gpu_memory_used_bytes"], 34351349760.0);
  EXPECT_DOUBLE_EQ(s["gpu_process_memory_bytes/3141"], 33546240.0 * 1024);
  // Half a second of compute within the next second.
  write("proc/3141/fdinfo/7",
        "drm-driver: amdgpu\ndrm-pdev: 0000:c1:00.0\ndrm-client-id: 42\ndrm-engine-compute: 5500000000 ns\n"
        "drm-engine-gfx: 900000000 ns\n");
  s = read(*source, 2'000'000'000);
  EXPECT_DOUBLE_EQ(s["gpu_engine_busy_percent/compute"], 50);
  EXPECT_EQ(s.count("gpu_engine_busy_percent/gfx"), 0u);  // went back: not measured
}

TEST_F(Files, NonsenseInAFileIsNotMeasured) {
  const Inventory v = look("amd");
  std::unique_ptr<Source> source = drmSource(dir_.path(), v.gpus[1]);
  std::map<std::string, double> s = read(*source);
  EXPECT_TRUE(status_.ok());
  EXPECT_DOUBLE_EQ(s["gpu_utilization_percent"], 0);
  EXPECT_TRUE(std::isnan(s["gpu_memory_used_bytes"]));
}

TEST_F(Files, AGpuWhoseFilesVanishIsGoneAndComesBack) {
  const Inventory v = look("amd");
  std::unique_ptr<Source> source = drmSource(dir_.path(), v.gpus[0]);
  (void)read(*source);
  ASSERT_TRUE(status_.ok());
  const std::string device = dir_ / "sys/devices/pci0000:c0/0000:c0:01.1/0000:c1:00.0";
  std::filesystem::rename(device, dir_ / "away");
  // An open file of a folder that was moved still answers; the kernel's do not: take the contents too.
  std::filesystem::remove_all(dir_ / "away");
  std::unique_ptr<Source> fresh = sensorSource(
      dir_.path(), v.gpus[0],
      Card{"card0", dir_ / "sys/class/drm/card0", dir_ / "sys/class/drm/card0/device", "amdgpu", "0000:c1:00.0", ""},
      {{{device + "/gpu_busy_percent", Metric::gpu_utilization_percent}}, "", false});
  (void)read(*fresh);
  EXPECT_FALSE(status_.ok());
  EXPECT_EQ(status_.message().substr(0, 8), "GPU gone");
  std::filesystem::create_directories(device);
  test::writeFile(device + "/gpu_busy_percent", "12\n");
  EXPECT_DOUBLE_EQ(read(*fresh)["gpu_utilization_percent"], 12);
}

TEST_F(Files, Intel) {
  const Inventory v = look("intel");
  ASSERT_EQ(v.gpus.size(), 2u);
  EXPECT_NE(v.gpus[0].name.find("integrated"), std::string::npos);
  EXPECT_EQ(v.gpus[0].clock_mhz, 1450);
  EXPECT_EQ(v.gpus[1].driver, "xe");
  EXPECT_EQ(v.gpus[1].clock_mhz, 2850);
  EXPECT_EQ(v.gpus[1].power_limit_watts, 190);
  EXPECT_EQ(v.gpus[1].pcie_generation, kUnknown);  // the endpoint's word is not believed

  std::unique_ptr<Source> igpu = drmSource(dir_.path(), v.gpus[0]);
  EXPECT_DOUBLE_EQ(read(*igpu)["gpu_sm_clock_mhz"], 1150);
  std::unique_ptr<Source> arc = drmSource(dir_.path(), v.gpus[1]);
  std::map<std::string, double> s = read(*arc);
  EXPECT_DOUBLE_EQ(s["gpu_temperature_celsius"], 47);
  EXPECT_DOUBLE_EQ(s["gpu_sm_clock_mhz"], 2400);
  EXPECT_DOUBLE_EQ(s["gpu_energy_joules"], 1000);
  EXPECT_EQ(s.count("gpu_power_watts"), 0u);  // two readings of energy are needed
  EXPECT_DOUBLE_EQ(s["gpu_process_memory_bytes/77"], 2048.0 * 1048576);
  write("sys/devices/pci0000:00/0000:00:01.0/0000:03:00.0/hwmon/hwmon2/energy2_input", "1150000000\n");
  write(
      "proc/77/fdinfo/5",
      "drm-driver: xe\ndrm-client-id: 9\ndrm-pdev: 0000:03:00.0\ndrm-cycles-ccs: 3500\ndrm-total-cycles-ccs: 20000\n");
  s = read(*arc, 3'000'000'000);
  EXPECT_DOUBLE_EQ(s["gpu_power_watts"], 75);  // 150 J in 2 s
  EXPECT_DOUBLE_EQ(s["gpu_engine_busy_percent/ccs"], 25);
  EXPECT_DOUBLE_EQ(s["gpu_utilization_percent"], 25);
}

TEST_F(Files, Qualcomm) {
  const Inventory v = look("qualcomm");
  ASSERT_EQ(v.gpus.size(), 1u);
  EXPECT_EQ(v.gpus[0].vendor, "qualcomm");
  EXPECT_EQ(v.gpus[0].clock_mhz, 690);
  EXPECT_EQ(v.gpus[0].memory_bytes, 16000000ll * 1024);
  std::unique_ptr<Source> source = drmSource(dir_.path(), v.gpus[0]);
  std::map<std::string, double> s = read(*source);
  EXPECT_DOUBLE_EQ(s["gpu_sm_clock_mhz"], 585);
  EXPECT_DOUBLE_EQ(s["gpu_temperature_celsius"], 43.5);
  EXPECT_DOUBLE_EQ(s["gpu_process_memory_bytes/900"], 120.0 * 1048576);
  write("proc/900/fdinfo/11", "drm-driver: msm_dpu\ndrm-client-id: 3\ndrm-engine-gpu: 2250000000 ns\n");
  EXPECT_DOUBLE_EQ(read(*source, 2'000'000'000)["gpu_utilization_percent"], 25);
}

TEST_F(Files, Apple) {
  const Inventory v = look("apple");
  ASSERT_EQ(v.gpus.size(), 1u);
  EXPECT_EQ(v.gpus[0].vendor, "apple");
  EXPECT_NE(v.gpus[0].name.find("M1 Pro"), std::string::npos);
  std::unique_ptr<Source> source = drmSource(dir_.path(), v.gpus[0]);
  (void)read(*source);
  write("proc/12/fdinfo/4", "drm-driver: asahi\ndrm-client-id: 1\ndrm-engine-render: 107000000 ns\n");
  EXPECT_DOUBLE_EQ(read(*source, 2'000'000'000)["gpu_utilization_percent"], 10);
}

TEST_F(Files, CpusLoadAndMemory) {
  (void)look("host");
  std::unique_ptr<Source> cpu = cpuSource(dir_.path());
  EXPECT_DOUBLE_EQ(read(*cpu)["host_load_average/5m"], 2.25);
  write("proc/stat",
        "cpu  130 0 120 840 10 0 0 0 0 0\ncpu0 80 0 70 400 10 0 0 0 0 0\ncpu1 50 0 50 440 0 0 0 0 0 0\nintr 1\n");
  std::map<std::string, double> s = read(*cpu);
  EXPECT_DOUBLE_EQ(s["host_cpu_busy_percent"], 50);  // 50 of 100 ticks
  EXPECT_DOUBLE_EQ(s["host_cpu_iowait_percent"], 10);
  EXPECT_DOUBLE_EQ(s["host_cpu_busy_percent/cpu0"], 100 * 50.0 / 60);
  EXPECT_DOUBLE_EQ(s["host_cpu_busy_percent/cpu1"], 0);
  std::unique_ptr<Source> memory = memorySource(dir_.path());
  s = read(*memory);
  EXPECT_DOUBLE_EQ(s["host_memory_available_bytes"], 600 * 1024);
  EXPECT_DOUBLE_EQ(s["host_swap_used_bytes"], 10 * 1024);
  write("proc/meminfo", "banana\n");
  (void)read(*memory);
  EXPECT_EQ(status_.message().substr(0, 8), "nonsense");
}

TEST_F(Files, DisksAndNetwork) {
  (void)look("host");
  std::unique_ptr<Source> disks = diskSource(dir_.path());
  std::map<std::string, double> s = read(*disks);
  EXPECT_DOUBLE_EQ(s["host_disk_read_bytes/nvme0n1"], 2048 * 512);
  EXPECT_DOUBLE_EQ(s["host_disk_written_bytes/nvme0n1"], 4096 * 512);
  EXPECT_EQ(s.count("host_disk_read_bytes/loop0"), 0u);
  const double busy = s["host_disk_busy_ns/nvme0n1"];
  write("proc/diskstats", " 259 0 nvme0n1 10 0 2048 5 20 0 4096 6 0 4 0\n");  // its 32 bits wrapped
  EXPECT_DOUBLE_EQ(read(*disks)["host_disk_busy_ns/nvme0n1"] - busy, 10e6);
  std::unique_ptr<Source> network = networkSource(dir_.path());
  s = read(*network);
  EXPECT_DOUBLE_EQ(s["host_network_rx_bytes/eth0"], 1000);
  EXPECT_DOUBLE_EQ(s["host_network_tx_bytes/eth0"], 2000);
  EXPECT_DOUBLE_EQ(s["host_network_errors/eth0 tx drops"], 4);
}

TEST_F(Files, RdmaPortsInTheirTrueUnits) {
  (void)look("host");
  std::unique_ptr<Source> rdma = rdmaSource(dir_.path());
  ASSERT_TRUE(rdma->open());
  std::map<std::string, double> s = read(*rdma);
  EXPECT_DOUBLE_EQ(s["rdma_tx_bytes/mlx5_0:1"], 4000);  // counted in words of four bytes
  EXPECT_DOUBLE_EQ(s["rdma_rx_bytes/mlx5_0:1"], 8000);
  EXPECT_DOUBLE_EQ(s["rdma_tx_wait_ticks/mlx5_0:1"], 77);
  EXPECT_DOUBLE_EQ(s["rdma_errors/mlx5_0:1 symbol_error"], 5);
  write("sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "4\n");
  EXPECT_DOUBLE_EQ(read(*rdma)["rdma_errors/mlx5_0:1 out_of_sequence"], 4294967300.0);
}

TEST_F(Files, KernelLogLinesAboutGpus) {
  (void)look("host");
  write("dev/kmsg", "6,1,100,-;old news\n");
  std::unique_ptr<Source> log = kernelLogSource(dir_.path());
  ASSERT_TRUE(log->open());
  EXPECT_TRUE(read(*log).empty());
  FILE* f = std::fopen((dir_ / "dev/kmsg").c_str(), "a");
  std::fputs("4,2,200,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.\n6,3,300,-;usb 1-1: new device\n",
             f);
  std::fclose(f);
  std::map<std::string, double> s = read(*log);
  ASSERT_EQ(s.size(), 1u);
  EXPECT_EQ(s.begin()->first, "host_kernel_log/NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.");
  std::filesystem::remove(dir_ / "dev/kmsg");
  EXPECT_FALSE(log->open());
}

}  // namespace
}  // namespace tracesmith::hardware
