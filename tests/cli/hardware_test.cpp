// devices, topo, top, exporter and bench as a user runs them.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/clock.hpp"
#include "cli/terminal.hpp"
#include "hardware/node/recorder.hpp"
#include "support/child.hpp"
#include "support/training_ring.hpp"
#include "support/tree.hpp"

#include <gtest/gtest.h>

namespace tracesmith::test {
namespace {

Environment machine(const std::string& name) {
  return {{"TRACESMITH_NVML", fakeNvml()}, {"TRACESMITH_FAKE_NVML", nvmlDescription(name)}};
}

bool has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Body of an answer to GET.
std::string get(int port, const std::string& path) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience{10, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(static_cast<uint16_t>(port));
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string out;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&in), sizeof in) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    (void)!::write(fd, request.data(), request.size());
    char buffer[4096];
    for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) out.append(buffer, static_cast<size_t>(n));
  }
  ::close(fd);
  const size_t body = out.find("\r\n\r\n");
  return body == std::string::npos ? out : out.substr(body + 4);
}

int portOf(Child& child) {
  int port = 0;
  EXPECT_TRUE(eventually([&] {
    const std::string text = child.out();
    const size_t end = text.find('\n');
    if (end == std::string::npos) return false;
    const size_t colon = text.substr(0, text.find("/metrics")).rfind(':', end);
    port = std::atoi(text.c_str() + colon + 1);
    return port > 0;
  })) << child.err();
  return port;
}

TEST(Devices, AreListedForPeopleAndMachines) {
  Output text = runWith(machine("h100-nvswitch"), {TRACESMITH_BIN, "devices"});
  EXPECT_EQ(text.rc, 0);
  EXPECT_TRUE(has(text.out, "NVIDIA H100 80GB HBM3")) << text.out;
  EXPECT_TRUE(has(text.out, "18 × NVLink4 to NVSwitch"));
  Output json = runWith(machine("mig"), {TRACESMITH_BIN, "devices", "--json"});
  EXPECT_EQ(json.rc, 0);
  EXPECT_TRUE(has(json.out, "\"mig\":true"));
  EXPECT_EQ(run({"python3", "-c", "import json,sys; json.load(sys.stdin)"}, json.out).rc, 0);
}

TEST(Devices, SimulatedOnesAreMarked) {
  EXPECT_TRUE(has(tracesmith({"devices", "--simulate", "2"}).out, "(simulated)"));
  EXPECT_TRUE(has(tracesmith({"devices", "--simulate", "2", "--json"}).out, "\"simulated\":true"));
  EXPECT_TRUE(has(tracesmith({"topo", "--simulate", "2"}).out, "These GPUs are simulated."));
  EXPECT_TRUE(has(tracesmith({"topo", "--simulate", "2", "--svg"}).out, "Simulated"));
}

TEST(Devices, TheBestAreChosen) {
  const Output near = tracesmith({"devices", "--select", "--simulate", "4", "--count", "3", "--near", "1", "--json"});
  EXPECT_EQ(near.rc, 0) << near.err;
  EXPECT_TRUE(has(near.out, "{\"requested\":3,\"suitable\":3,\"devices\":[{\"device_id\":\"")) << near.out;
  EXPECT_TRUE(has(near.out, "\"simulated\":true") && has(near.out, "\"near_gbps\":478")) << near.out;
  EXPECT_TRUE(has(near.out, ":1\",\"reason\":\"it is the device to be near to\"}")) << near.out;
  const Output text = runWith(machine("h100-nvswitch"), {TRACESMITH_BIN, "devices", "--select", "--precision", "fp8"});
  EXPECT_EQ(text.rc, 0) << text.err;
  EXPECT_TRUE(has(text.out, "NVIDIA H100 80GB HBM3")) << text.out;
}

TEST(Devices, ThatAreNotSuitableAreNamedAndBadRequestsAreOneLine) {
  const Output none = tracesmith({"devices", "--select", "--simulate", "2", "--precision", "fp4"});
  EXPECT_EQ(none.rc, 1);
  EXPECT_TRUE(has(none.out, "it does not support the precision")) << none.out;
  EXPECT_EQ(none.err, "tracesmith: no GPU is suitable\n");
  const Output few = tracesmith({"devices", "--select", "--simulate", "2", "--count", "3"});
  EXPECT_EQ(few.err, "tracesmith: 3 GPUs were asked for, and only 2 are suitable\n");
  const Output size = tracesmith({"devices", "--select", "--simulate", "2", "--min-memory", "8X"});
  EXPECT_EQ(size.rc, 2);
  EXPECT_TRUE(has(size.err, "'8X' is not a size: use 8GB, 8GiB or a number of bytes")) << size.err;
  EXPECT_EQ(tracesmith({"devices", "--simulate", "2", "--count", "3"}).rc, 2);
  EXPECT_EQ(tracesmith({"devices", "--select", "--simulate", "2", "--near", "9"}).err,
            "tracesmith: there is no device '9'\n");
}

TEST(Topo, WritesPicturesAndPaths) {
  TempDir dir;
  Output svg = runWith(machine("v100-cube"), {TRACESMITH_BIN, "topo", "--svg", "-o", dir / "t.svg"});
  EXPECT_EQ(svg.rc, 0) << svg.err;
  EXPECT_EQ(run({"python3", "-c", "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])", dir / "t.svg"}).rc, 0);
  Output path = runWith(machine("v100-cube"), {TRACESMITH_BIN, "topo", "--path", "0", "7"});
  EXPECT_TRUE(has(path.out, "GPU 0 -> GPU 4 -> GPU 7: 51.6 GB/s")) << path.out;
  EXPECT_EQ(runWith(machine("v100-cube"), {TRACESMITH_BIN, "topo", "--path", "0", "9"}).rc, 1);
  EXPECT_EQ(tracesmith({"topo", "--svg", "--json"}).rc, 2);
}

TEST(Top, FitsTheScreen) {
  for (auto [columns, lines] : {std::pair{"80", "24"}, {"200", "60"}, {"40", "10"}}) {
    Environment e = machine("h100-nvswitch");
    e.push_back({"COLUMNS", columns});
    e.push_back({"LINES", lines});
    Output top = runWith(e, {TRACESMITH_BIN, "top", "--once"});
    EXPECT_EQ(top.rc, 0);
    std::istringstream in(top.out);
    int count = 0;
    for (std::string line; std::getline(in, line); ++count)
      EXPECT_LE(cli::displayWidth(line), static_cast<size_t>(std::atoi(columns))) << line;
    EXPECT_EQ(count, std::atoi(lines));
    EXPECT_TRUE(has(top.out, "97%")) << top.out;
    if (std::atoi(lines) >= 24) {
      EXPECT_TRUE(has(top.out, "4242")) << top.out;  // the process
    }
  }
}

TEST(Top, IsPlainTextInAPipe) {
  Output top = runWith(machine("h100-nvswitch"), {TRACESMITH_BIN, "top", "--once"});
  EXPECT_EQ(top.rc, 0);
  EXPECT_FALSE(has(top.out, "\x1b")) << top.out;
  EXPECT_FALSE(has(top.out, "q quit")) << top.out;
  EXPECT_FALSE(top.out.ends_with("\n\n")) << top.out;
  EXPECT_TRUE(has(top.out, "4242")) << top.out;
}

TEST(Top, HasColoursOnlyWhereTheyAreWanted) {
  if (run({"sh", "-c", "command -v script"}).rc != 0) GTEST_SKIP() << "script (bsdutils) is not installed";
  auto onTerminal = [](const std::string& term, const std::string& no_color) {
    Environment e = machine("h100-nvswitch");
    e.push_back({"TERM", term});
    e.push_back({"NO_COLOR", no_color});
    return runWith(e, {"script", "-qec", TRACESMITH_BIN " top --once", "/dev/null"}).out;
  };
  EXPECT_TRUE(has(onTerminal("xterm", ""), "\x1b[")) << "an empty NO_COLOR is none";
  for (const std::string& plain : {onTerminal("xterm", "1"), onTerminal("dumb", "")}) {
    EXPECT_FALSE(has(plain, "\x1b")) << plain;
    EXPECT_TRUE(has(plain, "4242")) << plain;
  }
}

TEST(Top, GivesJson) {
  Output top = runWith(machine("h100-nvswitch"), {TRACESMITH_BIN, "top", "--json"});
  EXPECT_EQ(top.rc, 0);
  EXPECT_EQ(run({"python3", "-c",
                 "import json,sys; d=json.load(sys.stdin); assert d['processes'][0]['pid']==4242; "
                 "assert any(m['name']=='gpu_power_watts' and m['value']==652 for m in d['metrics'])"},
                top.out)
                .rc,
            0);
}

TEST(Top, ShowsHowFastProcessesTrain) {
  TempDir dir;
  TrainingRing ring(dir / "1.ring", 3, "trainer");
  ring.step(7);
  auto trains = [&ring] {
    ring.counter("samples/s", 120);
    ring.counter("mfu %", 37.5);
  };
  trains();
  Environment e = machine("h100-nvswitch");
  e.push_back({"TRACESMITH_DIR", dir.path()});
  e.push_back({"LINES", "40"});
  Output top = runWith(e, {TRACESMITH_BIN, "top", "--json"});
  EXPECT_TRUE(has(top.out, "\"rank\":3,\"role\":\"trainer\",\"simulated\":false,\"step\":7,")) << top.out;
  EXPECT_TRUE(has(top.out, "\"mfu_percent\":37.5,\"samples_per_s\":120,\"tokens_per_s\":null}")) << top.out;
  trains();
  top = runWith(e, {TRACESMITH_BIN, "top", "--once", "--sort", "rank"});
  EXPECT_TRUE(has(top.out, "PID      GPU memory    rank  role      step    MFU   samples/s  command")) << top.out;
  EXPECT_TRUE(has(top.out, "-   -         3     trainer   7       38%   120        ")) << top.out;
  Child exporter({TRACESMITH_BIN, "exporter", "--port", "0"}, e);
  const int port = portOf(exporter);
  trains();
  const std::string metrics = get(port, "/metrics");
  const std::string labels = "{pid=\"" + std::to_string(::getpid()) + "\",rank=\"3\",role=\"trainer\"} ";
  EXPECT_TRUE(has(metrics, "tracesmith_rank_mfu_ratio" + labels + "0.375\n")) << metrics;
  EXPECT_TRUE(has(metrics, "tracesmith_rank_samples_per_second" + labels + "120\n"));
  EXPECT_TRUE(has(metrics, "tracesmith_rank_step" + labels + "7\n"));
  EXPECT_FALSE(has(metrics, "tracesmith_rank_tokens"));
  exporter.signal(SIGTERM);
  EXPECT_EQ(exporter.wait().rc, 0);
}

TEST(Exporter, SpeaksPrometheus) {
  Child exporter({TRACESMITH_BIN, "exporter", "--port", "0", "--interval", "50", "--slow-interval", "100"},
                 machine("h100-nvswitch"));
  const int port = portOf(exporter);
  ASSERT_GT(port, 0);
  ASSERT_TRUE(
      eventually([&] { return has(get(port, "/metrics"), "tracesmith_gpu_sm_activity_ratio{gpu=\"7\"} 0.88"); }));
  const std::string text = get(port, "/metrics");
  EXPECT_TRUE(has(text, "tracesmith_gpu_power_watts{gpu=\"0\"} 652")) << text;
  EXPECT_TRUE(has(text, "# TYPE tracesmith_gpu_nvlink_tx_bytes_total counter"));
  EXPECT_TRUE(has(text, "tracesmith_gpu_info{gpu=\"0\",name=\"NVIDIA H100 80GB HBM3\""));
  EXPECT_TRUE(has(text, "tracesmith_gpu_process_memory_bytes{gpu=\"0\",pid=\"4242\"} 6.8e+10"));
  EXPECT_EQ(get(port, "/healthz"), "ok\n");
  EXPECT_TRUE(has(get(port, "/else"), "try /metrics"));
  if (run({"sh", "-c", "command -v promtool"}).rc == 0) {
    Output lint = run({"promtool", "check", "metrics"}, text);
    EXPECT_EQ(lint.rc, 0) << lint.out << lint.err;
  }
  exporter.signal(SIGTERM);
  EXPECT_EQ(exporter.wait().rc, 0);
  EXPECT_EQ(tracesmith({"exporter", "--nvml-field", "no_such_field"}).rc, 2);
  EXPECT_EQ(tracesmith({"exporter", "--bind", "not-an-address"}).rc, 1);
}

TEST(Exporter, IsScrapedByARealPrometheus) {
  if (run({"sh", "-c", "command -v prometheus"}).rc != 0) GTEST_SKIP() << "Prometheus is not installed";
  Child exporter({TRACESMITH_BIN, "exporter", "--port", "0", "--interval", "50", "--slow-interval", "100"},
                 machine("h100-nvswitch"));
  const int port = portOf(exporter);
  TempDir dir;
  writeFile(dir / "prometheus.yml",
            "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: tracesmith\n  static_configs:\n  - targets: "
            "['127.0.0.1:" +
                std::to_string(port) + "']\n");
  // A port nobody has now; Prometheus cannot choose one itself.
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof in;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&in), sizeof in), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&in), &size);
  const int server_port = ntohs(in.sin_port);
  ::close(fd);
  Child prometheus({"prometheus", "--config.file=" + (dir / "prometheus.yml"), "--storage.tsdb.path=" + (dir / "data"),
                    "--web.listen-address=127.0.0.1:" + std::to_string(server_port), "--log.level=error"});
  const std::string query = "/api/v1/query?query=";
  EXPECT_TRUE(eventually([&] { return has(get(server_port, query + "up"), "\"1\"]"); })) << prometheus.err();
  EXPECT_TRUE(eventually([&] { return has(get(server_port, query + "sum(tracesmith_gpu_power_watts)"), "\"5216\""); }))
      << get(server_port, query + "tracesmith_gpu_power_watts");
  EXPECT_TRUE(eventually([&] {
    return has(get(server_port, query + "rate(tracesmith_gpu_nvlink_tx_bytes_total[10s])%3E0"), "\"gpu\":\"7\"");
  }));
  Output dashboard;
  EXPECT_TRUE(eventually([&] {  // rates need several scrapes
    dashboard = run({"python3", TRACESMITH_SOURCE_DIR "/tests/support/ask_dashboard.py",
                     TRACESMITH_SOURCE_DIR "/deploy/grafana/tracesmith-hardware.json", std::to_string(server_port)});
    return dashboard.rc == 0;
  })) << dashboard.err;
  prometheus.signal(SIGTERM);
  (void)prometheus.wait();
  exporter.signal(SIGTERM);
  EXPECT_EQ(exporter.wait().rc, 0);
}

TEST(CollectorCosts, AreShownByInfo) {
  TempDir dir;
  {
    Result<std::unique_ptr<trace::Writer>> writer = trace::Writer::create(dir / "t.sbt");
    ASSERT_TRUE(writer);
    hardware::SamplerOptions options;
    options.places.simulated_gpus = 2;
    options.fast_ms = 20;
    options.slow_ms = 50;
    hardware::TelemetryRecorder recorder(**writer, options);
    recorder.start();
    const int64_t begin = rawClock();
    ASSERT_TRUE(eventually([&] { return rawClock() - begin > 300'000'000; }));
    ASSERT_TRUE(recorder.stop());
    ASSERT_TRUE((*writer)->close());
  }
  const Output text = tracesmith({"info", dir / "t.sbt"});
  EXPECT_TRUE(has(text.out, "collectors")) << text.out;
  EXPECT_TRUE(has(text.out, "simulated gpu 1")) << text.out;
  const Output json = tracesmith({"info", dir / "t.sbt", "--json"});
  EXPECT_EQ(run({"python3", "-c",
                 "import json,sys; d=json.load(sys.stdin); c={x['collector']: x for x in d['collectors']}; "
                 "assert c['simulated gpu 0']['samples'] > 0 and c['cpu']['cpu_s'] > 0, c"},
                json.out)
                .rc,
            0)
      << json.out;
}

TEST(Bench, KeepsACapabilityRecordAndNodesYamlStandsOverIt) {
  TempDir dir;
  const std::string record = dir / "cap.json";
  Output measured = tracesmith(
      {"bench", "hardware", "--quick", "--only", "cpu,memory,disk,network", "--dir", dir.path(), "-o", record});
  EXPECT_EQ(measured.rc, 0) << measured.err;
  for (const char* name :
       {"cpu_gflops", "memory_gbps", "disk_write_gbps", "disk_read_gbps", "network_gbps", "network_round_trip_us"})
    EXPECT_TRUE(has(measured.out, name)) << measured.out;
  writeFile(dir / "nodes.yaml",
            "nodes:\n- name: '*'\n  capabilities:\n    cpu_gflops: 12345\n    gpu_matrix_tflops: {gpu 0 bf16: 640}\n");
  Output shown = tracesmith({"bench", "show", "-o", record, "--nodes", dir / "nodes.yaml"});
  EXPECT_EQ(shown.rc, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "12345")) << shown.out;
  EXPECT_TRUE(has(shown.out, "gpu 0 bf16"));
  EXPECT_TRUE(has(shown.out, "declared"));
  writeFile(dir / "nodes.yaml", "nodes: [\n");
  Output broken = tracesmith({"bench", "show", "-o", record, "--nodes", dir / "nodes.yaml"});
  EXPECT_EQ(broken.rc, 1);
  EXPECT_TRUE(has(broken.err, "line "));
  EXPECT_EQ(tracesmith({"bench", "show", "-o", dir / "none.json"}).rc, 1);
}

TEST(Bench, OfLinksNeedsAGpu) {
  TempDir dir;
  Environment e = machine("a100-mesh");
  e.push_back({"TRACESMITH_CUDA", dir / "libcuda.so.1"});
  e.push_back({"TRACESMITH_DATA", dir.path()});
  Output links = runWith(e, {TRACESMITH_BIN, "bench", "links"});
  EXPECT_EQ(links.rc, 1);
  EXPECT_EQ(links.out, "");
  EXPECT_TRUE(links.err.starts_with("tracesmith: links were not measured: no CUDA driver")) << links.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "nodes"));
}

TEST(Bench, MeasuresGpusAndTheirLinks) {
  TempDir dir;
  Environment e = machine("a100-mesh");
  e.push_back({"TRACESMITH_CUDA", TRACESMITH_BUILD_DIR "/lib/tests/libfake_cuda_driver.so"});
  e.push_back({"TRACESMITH_CUBLASLT", TRACESMITH_BUILD_DIR "/lib/tests/libfake_cublaslt.so"});
  e.push_back({"TRACESMITH_DATA", dir.path()});
  Output gpus = runWith(e, {TRACESMITH_BIN, "bench", "hardware", "--quick", "--only", "gpu"});
  EXPECT_EQ(gpus.rc, 0) << gpus.err;
  for (const char* what : {"gpu_host_to_device_gbps", "gpu_device_to_host_gbps", "gpu_memory_gbps", "gpu 1 bf16",
                           "gpu 0 tf32", "gpu 0 fp64"})
    EXPECT_TRUE(has(gpus.out, what)) << gpus.out;
  EXPECT_TRUE(has(gpus.out, "fp8 products of gpu 0 were not measured")) << gpus.out;
  EXPECT_TRUE(has(runWith(e, {TRACESMITH_BIN, "topo", "--json"}).out, "\"measured_bandwidth\":null"));
  Output links = runWith(e, {TRACESMITH_BIN, "bench", "links", "--quick"});
  EXPECT_EQ(links.rc, 0) << links.err;
  EXPECT_TRUE(has(links.out, "0-1")) << links.out;
  EXPECT_TRUE(has(links.out, "gpu_memory_gbps")) << "what was measured before is kept";
  EXPECT_TRUE(has(runWith(e, {TRACESMITH_BIN, "topo"}).out, "Measured:\n  GPU0 - GPU1: "));
}

TEST(Bench, MeasuresTheNetworkToAPeer) {
  TempDir dir;
  Child peer({TRACESMITH_BIN, "bench", "serve"});
  int port = 0;
  ASSERT_TRUE(eventually([&] {
    const std::string text = peer.out();
    port = has(text, "\n") ? std::atoi(text.c_str() + text.rfind(':') + 1) : 0;
    return port > 0;
  }));
  const std::string address = "127.0.0.1:" + std::to_string(port);
  Output o = tracesmith({"bench", "hardware", "--quick", "--only", "network", "--peer", address, "-o", dir / "c.json"});
  EXPECT_EQ(o.rc, 0) << o.err;
  EXPECT_TRUE(has(o.out, address)) << o.out;
  peer.signal(SIGTERM);
  EXPECT_EQ(peer.wait().rc, 0);
}

}  // namespace
}  // namespace tracesmith::test
