// How fast `tracesmith import` reads Kineto JSON, beside CPython's json.load of the same file.
// Both are timed as whole processes, on one core (pinned to it) in turns, then import once more on all cores.
// "CPU" figures count user and system time instead of the clock: other work on the machine does not change them much.
// Without --file it writes a trace of its own, of the mix of events a real training trace has.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/statistics.hpp"
#include "base/text.hpp"
#include "measure.hpp"

namespace {

using namespace tracesmith;

/// Runs a command, its output dropped; on one core where asked.
bench::Cost run(const std::vector<std::string>& argv, bool one_core) {
  return bench::measure([&] {
    std::vector<char*> args;
    for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
    args.push_back(nullptr);
    if (one_core) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<unsigned>(::sched_getcpu()), &set);
      ::sched_setaffinity(0, sizeof set, &set);
    }
    if (!std::freopen("/dev/null", "w", stdout)) return 126;
    ::execvp(args[0], args.data());
    return 127;
  });
}

/// A trace of about `bytes`: a third operators, a fifth API calls, a third arrows, kernels and Python frames the rest.
Status writeTrace(const std::string& path, uint64_t bytes) {
  Result<File> file = File::create(path);
  if (!file) return file.status();
  BufferedWriter out(*file);
  std::mt19937_64 random(1);
  const char* ops[] = {"aten::add_",   "aten::mm",
                       "aten::linear", "aten::native_layer_norm",
                       "aten::copy_",  "aten::_scaled_dot_product_flash_attention"};
  const char* add_kernel =
      "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, "
      "3> "
      ">(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3>)";
  const char* gemm_kernel =
      "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_"
      "cublas";
  const char* nccl_kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
  const char* kernels[] = {add_kernel, gemm_kernel, nccl_kernel};
  TS_TRY(out.write(
      "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [\n    {\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", "
      "\"totalGlobalMem\": 85018279936, \"computeMajor\": 9, \"computeMinor\": 0, \"warpSize\": 32, \"numSms\": 132}\n "
      " ],\n"
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
      TS_TRY(
          print("  {\n    \"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"ProfilerStep#%lu\", \"pid\": 29102, "
                "\"tid\": 29102,\n    \"ts\": "
                "%lu.%03u, \"dur\": 180000000.000,\n    \"args\": {\n      \"External id\": %lu, \"Ev Idx\": %lu\n    "
                "}\n  },\n",
                id / 40000, t, f, id, id));
    for (int k = 0; k < 2; ++k)
      TS_TRY(
          print("  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"%s\", \"pid\": 29102, \"tid\": 29102,\n    "
                "\"ts\": %lu.%03u, \"dur\": "
                "%u.%03u,\n    \"args\": {\n      \"External id\": %lu,\"Record function id\": %lu, \"Concrete "
                "Inputs\": [\"\", \"[8, 512]\", \"\", "
                "\"False\"], \"Input type\": [\"c10::BFloat16\", \"ScalarList\", \"\", \"Scalar\"], \"Input Dims\": "
                "[[8, 512, 1024], [], [], []], "
                "\"Ev Idx\": %lu\n    }\n  },\n",
                ops[random() % 6], t, f, dur / 1000, dur % 1000, id * 2 + static_cast<unsigned>(k), id, id));
    if (i % 3 == 0)
      TS_TRY(
          print("  {\n    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"torch/nn/modules/module.py(%u): "
                "_call_impl\", \"pid\": 29102, "
                "\"tid\": 29102,\n    \"ts\": %lu.%03u, \"dur\": %u.%03u,\n    \"args\": {\n      \"Python parent "
                "id\": %lu, \"Python id\": %lu, \"Ev "
                "Idx\": %lu\n    }\n  },\n",
                static_cast<unsigned>(random() % 1800), t, f, dur / 1000, dur % 1000, id, id + 1, id));
    unsigned long c = ++correlation;
    TS_TRY(
        print("  {\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 29102, "
              "\"tid\": 29102,\n    \"ts\": "
              "%lu.%03u, \"dur\": %u.%03u,\n    \"args\": {\n      \"External id\": %lu,\"cbid\": 211, "
              "\"correlation\": %lu\n    }\n  },\n",
              t, f, dur / 9000, dur % 1000, id, c));
    TS_TRY(
        print("  {\n    \"ph\": \"s\", \"id\": %lu, \"pid\": 29102, \"tid\": 29102, \"ts\": %lu.%03u,\n    \"cat\": "
              "\"ac2g\", \"name\": \"ac2g\"\n  },\n",
              c, t, f));
    auto [kt, kf] = us(ns + 3000 + random() % 5000);
    TS_TRY(
        print("  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"%s\", \"pid\": 0, \"tid\": 7,\n    \"ts\": "
              "%lu.%03u, \"dur\": %u.%03u,\n    "
              "\"args\": {\n      \"External id\": %lu,\n      \"queued\": 0, \"device\": 0, \"context\": 1,\n      "
              "\"stream\": 7, \"correlation\": "
              "%lu,\n      \"registers per thread\": 40,\n      \"shared memory\": %u,\n      \"blocks per SM\": "
              "%u.740741,\n      \"warps per SM\": "
              "75.851852,\n      \"grid\": [%u, 1, 1],\n      \"block\": [512, 1, 1],\n      \"est. achieved occupancy "
              "%%\": %u\n    }\n  },\n",
              kernels[i % 50 == 0 ? 2 : i % 2], kt, kf, dur / 1000, dur % 1000, id, c,
              static_cast<unsigned>(random() % 8) * 512, static_cast<unsigned>(random() % 30),
              static_cast<unsigned>(random() % 64) * 8, static_cast<unsigned>(random() % 100)));
    TS_TRY(
        print("  {\n    \"ph\": \"f\", \"id\": %lu, \"pid\": 0, \"tid\": 7, \"ts\": %lu.%03u,\n    \"cat\": \"ac2g\", "
              "\"name\": \"ac2g\", \"bp\": \"e\"\n  },\n",
              c, kt, kf));
  }
  TS_TRY(
      out.write("  {\n    \"name\": \"process_name\", \"ph\": \"M\", \"ts\": 4458676522690.655, \"pid\": 29102, "
                "\"tid\": 0, \"args\": {\"name\": \"python3\"}\n  }\n"
                "  ],\n  \"traceName\": \"bench.json\",\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": "
                "1711964646000000000\n}\n"));
  return out.flush();
}

}  // namespace

int main(int argc, char** argv) {
  bench::usage(argc, argv, "import_bench [--smoke] [--mb N] [--repeat N] [--json FILE] [--file TRACE.json]");
  const bool smoke = bench::flag(argc, argv, "--smoke");
  const uint64_t mb = std::stoull(bench::option(argc, argv, "--mb", smoke ? "4" : "300"));
  const int repeat = std::stoi(bench::option(argc, argv, "--repeat", smoke ? "1" : "3"));
  const std::string json_path = bench::option(argc, argv, "--json", "");
  std::string trace = bench::option(argc, argv, "--file", "");
  const std::string base =
      (std::filesystem::temp_directory_path() / ("import-bench-" + std::to_string(::getpid()))).string();
  const bool own = trace.empty();
  if (own) {
    trace = base + ".json";
    if (Status s = writeTrace(trace, mb * 1'000'000); !s) {
      std::fprintf(stderr, "import_bench: %s\n", s.message().c_str());
      return 1;
    }
  }
  const double size_mb = static_cast<double>(std::filesystem::file_size(trace)) / 1e6;
  const std::vector<std::string> import = {TRACESMITH_BIN, "import", trace, "--force", "-o", base + ".sbt"};
  const std::vector<std::string> python = {"python3", "-c", "import json,sys; json.load(open(sys.argv[1]))", trace};
  std::vector<double> one_core, all_cores, cpu, python_speed, ratios, cpu_ratios;
  double peak_mb = 0, python_peak_mb = 0;
  for (int r = 0; r < repeat; ++r) {
    bench::Cost ours = run(import, true), theirs = run(python, true), free = run(import, false);
    one_core.push_back(size_mb / ours.wall_s);
    all_cores.push_back(size_mb / free.wall_s);
    cpu.push_back(size_mb / ours.cpu_s);
    python_speed.push_back(size_mb / theirs.wall_s);
    ratios.push_back(theirs.wall_s / ours.wall_s);
    cpu_ratios.push_back(theirs.cpu_s / ours.cpu_s);
    peak_mb = std::max({peak_mb, ours.peak_mb, free.peak_mb});
    python_peak_mb = std::max(python_peak_mb, theirs.peak_mb);
  }
  const auto out_mb = static_cast<double>(std::filesystem::file_size(base + ".sbt")) / 1e6;
  std::filesystem::remove(base + ".sbt");
  if (own) std::filesystem::remove(trace);

  auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  std::printf("input                    %10.1f MB of JSON -> %.1f MB\n", size_mb, out_mb);
  std::printf("import, one core         %10.1f MB/s\n", median(one_core));
  std::printf("import, all cores        %10.1f MB/s\n", median(all_cores));
  std::printf("import, CPU time         %10.1f MB/s\n", median(cpu));
  std::printf("json.load, one core      %10.1f MB/s\n", median(python_speed));
  std::printf("ratio, one core          %10.2f  (%.2f to %.2f in %d runs)\n", median(ratios), *low, *high, repeat);
  std::printf("ratio, CPU time          %10.2f\n", median(cpu_ratios));
  std::printf("peak memory              %10.1f MiB  (json.load: %.1f MiB)\n", peak_mb, python_peak_mb);
  if (json_path.empty()) return 0;
  std::string text;
  JsonWriter json(text);
  json.beginObject().field("bench", "import").field("input_mb", size_mb).field("output_mb", out_mb);
  json.field("import_one_core_mb_per_s", median(one_core)).field("import_mb_per_s", median(all_cores));
  json.field("import_mb_per_cpu_s", median(cpu)).field("json_load_mb_per_s", median(python_speed));
  json.field("ratio", median(ratios)).field("ratio_low", *low).field("ratio_high", *high);
  json.field("cpu_ratio", median(cpu_ratios));
  json.field("peak_mib", peak_mb).field("json_load_peak_mib", python_peak_mb).endObject();
  Result<File> out = File::create(json_path);
  if (!out || !out->write(text + "\n")) {
    std::fprintf(stderr, "import_bench: cannot write %s\n", json_path.c_str());
    return 1;
  }
}
