// Scenarios of fake_nccl with CUDA graphs and copy engines.
#include "nccl_graphs.hpp"

#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "cudart.hpp"
#include "nccl.hpp"

namespace tracesmith::fake {
namespace {

/// One launch of NCCL: the operations in it and their kernel.
struct Group {
  std::vector<Op> ops;
  std::string kernel;
};

std::string kernelOf(const std::string& function) { return "ncclDevKernel_" + function + "_RING_LL"; }
Group one(const char* function, size_t count) { return {{{.function = function, .count = count}}, kernelOf(function)}; }

/// One rank of two, with graphs. `proxy`: NCCL tells of what was captured with each replay, on a thread of CUDA's; else
/// once, when it is captured.
class GraphJob {
 public:
  explicit GraphJob(bool proxy, int version = 5) : nccl_(version), proxy_(proxy) {
    world_ = {.rank = std::atoi(std::getenv("RANK")), .ranks = 2};
    nccl_.init(world_);
    job() = this;
    fakeOnGraphLaunch([](uint32_t captured, uint32_t exec, void* on) { job()->replay(captured, exec, on); });
  }

  void* capture(const std::vector<Group>& groups) {
    cudaStreamBeginCapture(stream(20), 0);
    std::vector<Told> told;
    for (const Group& g : groups) {
      std::vector<void*> calls;
      nccl_.group(world_, g.ops, stream(20), &calls);
      if (!proxy_) nccl_.tell(world_, g.ops, calls);
      told.push_back({g, calls});
    }
    void* graph = nullptr;
    cudaStreamEndCapture(stream(20), &graph);
    graphs_[++captured_] = told;
    return graph;
  }
  static void* instantiate(void* graph) {
    void* exec = nullptr;
    if (cudaGraphInstantiate(&exec, graph, 0) != 0) die("not instantiated");
    return exec;
  }
  void eager(const Group& g) { runKernel(g.kernel.c_str(), 20, nccl_.group(world_, g.ops, stream(20))); }

  bool runs = true;  // what is launched

 private:
  struct Told {
    Group group;
    std::vector<void*> calls;
  };
  static GraphJob*& job() {
    static GraphJob* one = nullptr;
    return one;
  }
  void replay(uint32_t captured, uint32_t exec, void* on) {
    if (!runs) return;
    std::vector<std::string> kernels;
    std::thread callback([&] {
      for (const Told& t : graphs_[captured]) {
        if (proxy_) nccl_.tell(world_, t.group.ops, t.calls);
        kernels.push_back("compute");
        kernels.push_back(t.group.kernel);
      }
    });
    callback.join();
    cuda().graph(exec, kernels, *static_cast<uint32_t*>(on));
  }

  Nccl nccl_;
  Communicator world_;
  bool proxy_;
  uint32_t captured_ = 0;
  std::map<uint32_t, std::vector<Told>> graphs_;
};

}  // namespace

void replays(bool proxy) {
  GraphJob job(proxy);
  const int peer = 1 - std::atoi(std::getenv("RANK"));
  const Group pair{{{.function = "Send", .count = 7, .peer = peer}, {.function = "Recv", .count = 7, .peer = peer}},
                   "ncclDevKernel_SendRecv"};
  job.eager(one("AllReduce", 1));
  void* graph = job.capture({one("AllReduce", 10), one("AllGather", 20)});
  void* exec = GraphJob::instantiate(graph);
  GraphJob::instantiate(job.capture({one("AllReduce", 30)}));  // is never launched
  for (int i = 0; i < 5; ++i) {
    cudaGraphLaunch(exec, stream(20));
    job.eager(one("AllReduce", 1));
  }
  cudaGraphDestroy(graph);
  cudaGraphExecDestroy(exec);
  exec = GraphJob::instantiate(job.capture({one("ReduceScatter", 40), pair}));
  for (int i = 0; i < 2; ++i) {
    cudaGraphLaunch(exec, stream(20));
    job.eager(pair);
  }
}

void replayHangs() {
  GraphJob job(false);
  void* exec = GraphJob::instantiate(job.capture({one("AllReduce", 10), one("AllGather", 20)}));
  void* other = GraphJob::instantiate(job.capture({one("ReduceScatter", 40)}));
  for (int i = 0; i < 2; ++i) cudaGraphLaunch(exec, stream(20));
  job.runs = false;
  cudaGraphLaunch(exec, stream(20));
  cudaGraphLaunch(other, stream(21));  // nobody has seen it end before
}

/// Collectives of which some go by copy engines, one of them in a graph.
void copyEngines(int version) {
  Nccl nccl(version);
  Communicator world;
  nccl.init(world);
  auto copies = [&](const char* function, size_t count) {
    GroupApiV5 g{{kGroupApi}, false, 1};
    void* group = nccl.start(world.context, &g, kGroupApi);
    ApiV5 a{{kCollApi, group}, function, count, "ncclFloat32", 0, stream(20), false};
    void* api = nccl.start(world.context, &a, kCollApi);
    nccl.stop(api);
    CeCollV6 c{{kCeColl, api, world.rank},
               3,
               function,
               nullptr,
               nullptr,
               count,
               0,
               "ncclFloat32",
               "UC",
               false,
               0,
               0,
               0,
               stream(20)};
    void* ce = nccl.start(world.context, &c, kCeColl);
    std::vector<Work> launched;
    for (int i = 0; i < 3; ++i) launched.push_back(cuda().copyCall(i == 0 ? 4 : 1000, 20));
    nccl.stop(ce);
    nccl.stop(group);
    for (const Work& w : launched) cuda().runCopy(w);
  };
  auto kernel = [&](const char* function) {
    runKernel(kernelOf(function).c_str(), 20, nccl.group(world, {{.function = function, .count = 5}}, stream(20)));
  };
  kernel("AllReduce");
  copies("AllGather", 100);
  kernel("AllReduce");
  copies("AlltoAll", 200);
  cuda().copy(4096);  // somebody else's
  kernel("AllReduce");
}

}  // namespace tracesmith::fake
