// tracesmith cluster stat: what the frames of a session say, and a picture of them. Needs no cluster.
#include <cmath>
#include <cstdio>

#include "base/text.hpp"
#include "cli/cluster.hpp"
#include "cli/outcome.hpp"
#include "cli/terminal.hpp"
#include "trace/export/canvas.hpp"
#include "trace/export/frame_stats.hpp"

namespace tracesmith::cli {
namespace {

struct Options {
  std::string data, plot;
  bool json = false;
};

std::string tenths(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return std::isnan(v) ? "unknown" : text;
}

int stat(const Options& o) {
  Result<trace::FrameData> data = trace::readFrames(o.data);
  if (!data) return fail(data.status());
  if (!o.plot.empty())
    if (Status s = trace::plotFrames(*data, o.plot); !s) return fail(s);
  if (o.json) {
    std::string text;
    JsonWriter w(text);
    w.beginObject().field("session_name", data->session).field("frames", static_cast<uint64_t>(data->seconds.size()));
    w.key("gpus").beginArray();
    for (const trace::FrameGpu& gpu : data->gpus) {
      w.beginObject().field("gpu_id", gpu.id);
      w.field("avg_gpu_util", gpu.util.average).field("avg_gpu_memory", gpu.memory.average);
      w.field("max_gpu_util", gpu.util.measured ? gpu.util.most : NAN);
      w.field("avg_dram_bandwidth", gpu.pcie.average).field("avg_gpu_bandwidth", gpu.gpu_to_gpu.average);
      w.field("measured", static_cast<uint64_t>(gpu.util.measured)).endObject();
    }
    w.endArray().endObject();
    std::printf("%s\n", text.c_str());
    return 0;
  }
  std::printf("session %s: %zu frames over %s\n", data->session.c_str(), data->seconds.size(),
              humanNs(data->seconds.empty() ? 0 : data->seconds.back() * 1e9).c_str());
  std::vector<std::vector<std::string>> rows = {
      {"GPU", "util %", "least", "most", "memory %", "PCIe GB/s", "NVLink GB/s", "measured"}};
  for (const trace::FrameGpu& gpu : data->gpus)
    rows.push_back({gpu.id, tenths(gpu.util.average), tenths(gpu.util.measured ? gpu.util.least : NAN),
                    tenths(gpu.util.measured ? gpu.util.most : NAN), tenths(gpu.memory.average),
                    tenths(gpu.pcie.average), tenths(gpu.gpu_to_gpu.average), std::to_string(gpu.util.measured)});
  std::printf("%s", tableText(rows).c_str());
  return 0;
}

}  // namespace

void addClusterStat(Command& cluster) {
  auto o = std::make_shared<Options>();
  Command command = cluster.command("stat", "Print statistics of a session's frames (.json), and plot them");
  command.option("--data", o->data, "Frames, as written by `cluster stop -o NAME.json`").required().type("FILE.json");
  command.option("--plot", o->plot, "Plot to write").type("FILE.png|.pdf|.svg");
  command.flag("--json", o->json, "Print JSON");
  command.footer("Example:  tracesmith cluster stat --data epoch-1.json --plot epoch-1.pdf");
  command.run(
      [o]() -> Status {
        trace::Canvas::Format format;
        if (!o->plot.empty() && !trace::Canvas::formatOf(o->plot, format))
          return Status::invalid("--plot needs a file name ending in .png, .pdf or .svg");
        return {};
      },
      [o] { return stat(*o); });
}

}  // namespace tracesmith::cli
