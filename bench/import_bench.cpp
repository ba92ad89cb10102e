// How fast `tracesmith import` reads Kineto JSON, beside CPython's json.load of the same file.
//   import_bench [--smoke] [--mb N] [--repeat N] [--json FILE] [--file TRACE.json]
// Both are timed as whole processes, on one core (pinned to it) in turns, then import once more on all cores.
// "CPU" figures count user and system time instead of the clock: other work on the machine does not change them much.
// Without --file it writes a trace of its own, of the mix of events a real training trace has.
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"

namespace {

using namespace tracesmith;

struct Timing {
  double seconds = 0, cpu_seconds = 0;
  double rss_mb = 0;
  int rc = -1;
};

/// Runs a command, its output dropped; on one core where asked.
Timing run(const std::vector<std::string>& argv, bool one_core) {
  std::vector<char*> args;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  auto start = std::chrono::steady_clock::now();
  pid_t pid = ::fork();
  if (pid == 0) {
    if (one_core) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<unsigned>(::sched_getcpu()), &set);
      ::sched_setaffinity(0, sizeof set, &set);
    }
    if (!std::freopen("/dev/null", "w", stdout)) ::_exit(126);
    ::execvp(args[0], args.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  ::wait4(pid, &status, 0, &usage);
  Timing t;
  t.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  auto seconds = [](const timeval& v) { return static_cast<double>(v.tv_sec) + static_cast<double>(v.tv_usec) / 1e6; };
  t.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  t.rss_mb = static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
  t.rc = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return t;
}

/// A trace of about `bytes`: a third operators, a fifth API calls, a third arrows, kernels and Python frames the rest.
Status writeTrace(const std::string& path, uint64_t bytes) {
  Result<File> file = File::create(path);
  if (!file) return file.status();
  BufferedWriter out(*file);
  std::mt19937_64 random(1);
  const char* ops[] = {"aten::add_", "aten::mm", "aten::linear", "aten::native_layer_norm", "aten::copy_", "aten::_scaled_dot_product_flash_attention"};
  const char* kernels[] = {
      "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int, "
      "at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)",
      "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
      "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"};
  TS_TRY(out.write("{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", "
                   "\"totalGlobalMem\": 85018279936, \"computeMajor\": 9, \"computeMinor\": 0, \"warpSize\": 32, \"numSms\": 132}\n  ],\n"
                   "  \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8},\n  \"traceEvents\": [\n"));
  uint64_t written = 0, ns = 4458676522690655ull, correlation = 1000;
  char line[2048];
  auto print = [&](const char* format, auto... values) {
    int n = std::snprintf(line, sizeof line, format, values...);
    written += static_cast<uint64_t>(n);
    return out.write(std::string_view(line, static_cast<size_t>(n)));
  };
  auto us = [](uint64_t t) { return std::pair(static_cast<unsigned long>(t / 1000), static_cast<unsigned>(t % 1000)); };
  for (uint64_t i = 0; written < bytes; ++i) {
    ns += 200 + random() % 9000;
    auto [t, f] = us(ns);
    auto dur = static_cast<unsigned>(random() % 90000 + 700);
    unsigned long id = i;
    if (i % 40000 == 0)
      TS_TRY(print("  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%lu\", \"pid\": 29102, \"tid\": 29102,\n    \"ts\": "
                   "%lu.%03u, \"dur\": 180000000.000,\n    \"args\": {\n      \"External id\": %lu, \"Ev Idx\": %lu\n    }\n  },\n",
                   id / 40000, t, f, id, id));
    for (int k = 0; k < 2; ++k)
      TS_TRY(print("  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 29102, \"tid\": 29102,\n    \"ts\": %lu.%03u, \"dur\": "
                   "%u.%03u,\n    \"args\": {\n      \"External id\": %lu,\"Record function id\": %lu, \"Concrete Inputs\": [\"\", \"[8, 512]\", \"\", "
                   "\"False\"], \"Input type\": [\"c10::BFloat16\", \"ScalarList\", \"\", \"Scalar\"], \"Input Dims\": [[8, 512, 1024], [], [], []], "
                   "\"Ev Idx\": %lu\n    }\n  },\n",
                   ops[random() % 6], t, f, dur / 1000, dur % 1000, id * 2 + static_cast<unsigned>(k), id, id));
    if (i % 3 == 0)
      TS_TRY(print("  {\n    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"torch/nn/modules/module.py(%u): _call_impl\", \"pid\": 29102, "
                   "\"tid\": 29102,\n    \"ts\": %lu.%03u, \"dur\": %u.%03u,\n    \"args\": {\n      \"Python parent id\": %lu, \"Python id\": %lu, \"Ev "
                   "Idx\": %lu\n    }\n  },\n",
                   static_cast<unsigned>(random() % 1800), t, f, dur / 1000, dur % 1000, id, id + 1, id));
    unsigned long c = ++correlation;
    TS_TRY(print("  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 29102, \"tid\": 29102,\n    \"ts\": "
                 "%lu.%03u, \"dur\": %u.%03u,\n    \"args\": {\n      \"External id\": %lu,\"cbid\": 211, \"correlation\": %lu\n    }\n  },\n",
                 t, f, dur / 9000, dur % 1000, id, c));
    TS_TRY(print("  {\n    \"ph\": \"s\", \"id\": %lu, \"pid\": 29102, \"tid\": 29102, \"ts\": %lu.%03u,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  },\n",
                 c, t, f));
    auto [kt, kf] = us(ns + 3000 + random() % 5000);
    TS_TRY(print("  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7,\n    \"ts\": %lu.%03u, \"dur\": %u.%03u,\n    "
                 "\"args\": {\n      \"External id\": %lu,\n      \"queued\": 0, \"device\": 0, \"context\": 1,\n      \"stream\": 7, \"correlation\": "
                 "%lu,\n      \"registers per thread\": 40,\n      \"shared memory\": %u,\n      \"blocks per SM\": %u.740741,\n      \"warps per SM\": "
                 "75.851852,\n      \"grid\": [%u, 1, 1],\n      \"block\": [512, 1, 1],\n      \"est. achieved occupancy %%\": %u\n    }\n  },\n",
                 kernels[i % 50 == 0 ? 2 : i % 2], kt, kf, dur / 1000, dur % 1000, id, c, static_cast<unsigned>(random() % 8) * 512,
                 static_cast<unsigned>(random() % 30), static_cast<unsigned>(random() % 64) * 8, static_cast<unsigned>(random() % 100)));
    TS_TRY(print("  {\n    \"ph\": \"f\", \"id\": %lu, \"pid\": 0, \"tid\": 7, \"ts\": %lu.%03u,\n    \"cat\": \"ac2g\", \"name\": \"ac2g\", \"bp\": \"e\"\n  },\n",
                 c, kt, kf));
  }
  TS_TRY(out.write("  {\n    \"name\": \"process_name\", \"ph\": \"M\", \"ts\": 4458676522690.655, \"pid\": 29102, \"tid\": 0, \"args\": {\"name\": \"python3\"}\n  }\n"
                   "  ],\n  \"traceName\": \"bench.json\",\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1711964646000000000\n}\n"));
  return out.flush();
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t mb = 300;
  int repeat = 3;
  std::string json_path, trace;
  for (int i = 1; i < argc; ++i) {
    std::string a = argv[i];
    auto next = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (a == "--smoke") {
      mb = 4;
      repeat = 1;
    } else if (a == "--mb") {
      mb = static_cast<uint64_t>(std::atoi(next()));
    } else if (a == "--repeat") {
      repeat = std::atoi(next());
    } else if (a == "--json") {
      json_path = next();
    } else if (a == "--file") {
      trace = next();
    } else {
      std::fprintf(stderr, "import_bench [--smoke] [--mb N] [--repeat N] [--json FILE] [--file TRACE.json]\n");
      return 2;
    }
  }
  const std::string base = (std::filesystem::temp_directory_path() / ("import-bench-" + std::to_string(::getpid()))).string();
  const bool own = trace.empty();
  if (own) {
    trace = base + ".json";
    if (Status s = writeTrace(trace, mb * 1'000'000); !s) {
      std::fprintf(stderr, "import_bench: %s\n", s.message().c_str());
      return 1;
    }
  }
  const double size_mb = static_cast<double>(std::filesystem::file_size(trace)) / 1e6;
  const std::vector<std::string> import = {TRACESMITH_BIN, "import", trace, "-o", base + ".sbt"};
  const std::vector<std::string> python = {"python3", "-c", "import json,sys; json.load(open(sys.argv[1]))", trace};
  std::vector<double> ours, theirs, ratios, cpu, cpu_ratios, free_cores;
  double rss = 0, python_rss = 0;
  bool good = true;
  for (int r = 0; r < repeat && good; ++r) {
    Timing a = run(import, true), b = run(python, true), c = run(import, false);
    good = a.rc == 0 && b.rc == 0 && c.rc == 0;
    ours.push_back(size_mb / a.seconds);
    theirs.push_back(size_mb / b.seconds);
    ratios.push_back(b.seconds / a.seconds);
    cpu.push_back(size_mb / a.cpu_seconds);
    cpu_ratios.push_back(b.cpu_seconds / a.cpu_seconds);
    free_cores.push_back(size_mb / c.seconds);
    rss = std::max({rss, a.rss_mb, c.rss_mb});
    python_rss = std::max(python_rss, b.rss_mb);
  }
  std::error_code ignored;
  const auto out_mb = static_cast<double>(std::filesystem::file_size(base + ".sbt", ignored)) / 1e6;
  std::filesystem::remove(base + ".sbt", ignored);
  if (own) std::filesystem::remove(trace, ignored);
  if (!good) {
    std::fprintf(stderr, "import_bench: a command failed (python3 and tracesmith are needed)\n");
    return 1;
  }
  auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  std::printf("input                    %10.1f MB of JSON -> %.1f MB\n", size_mb, out_mb);
  std::printf("import, one core         %10.1f MB/s\n", median(ours));
  std::printf("import, all cores        %10.1f MB/s\n", median(free_cores));
  std::printf("json.load, one core      %10.1f MB/s\n", median(theirs));
  std::printf("ratio, one core          %10.2f  (%.2f to %.2f in %d runs)\n", median(ratios), *low, *high, repeat);
  std::printf("import, CPU              %10.1f MB/s\n", median(cpu));
  std::printf("ratio, CPU               %10.2f\n", median(cpu_ratios));
  std::printf("peak memory              %10.1f MB  (json.load: %.1f MB)\n", rss, python_rss);
  if (json_path.empty()) return 0;
  std::string text;
  JsonWriter json(text);
  json.beginObject().field("bench", "import").field("input_mb", size_mb).field("output_mb", out_mb);
  json.field("import_one_core_mb_per_s", median(ours)).field("import_mb_per_s", median(free_cores));
  json.field("json_load_mb_per_s", median(theirs)).field("ratio", median(ratios)).field("ratio_low", *low).field("ratio_high", *high);
  json.field("import_mb_per_cpu_s", median(cpu)).field("cpu_ratio", median(cpu_ratios));
  json.field("peak_rss_mb", rss).field("json_load_peak_rss_mb", python_rss).endObject();
  Result<File> out = File::create(json_path);
  if (!out || !out->write(text + "\n")) {
    std::fprintf(stderr, "import_bench: cannot write %s\n", json_path.c_str());
    return 1;
  }
}
