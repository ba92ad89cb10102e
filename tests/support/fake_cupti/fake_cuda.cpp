// A small CUDA program without CUDA: each argument is a command, done in turn.
//   init                 start CUDA (the first command does, unless it is `later`)
//   kernels N [STREAM]   launch N kernels        threads T N      the same from T threads at once
//   copies N | sets N | peers N | graphs N | syncs N | overheads N | calls N
//   hold                 a kernel that does not end        bad      kernels with impossible times
//   unknown N            records of an unknown kind        drop N   CUPTI loses N records
//   on | off             wait until kernels are recorded, or not
//   step N | stepped     a training step begins, or ends (tracesmith.h)
//   train FIRST LAST     steps of a millisecond, each with a kernel
//   kinds                print which kinds of records are on
//   file PATH            wait for a file                   touch PATH
//   settle               wait until CUPTI has handed over all its buffers
//   capture              a graph, until `captured`         name MODULES   of the nodes from then on
//   node                 of the graph                      replay    the graph that was captured
//   subscribe            another profiler subscribes
//   profile              another profiler starts           profiled STOP…
//   finalize             it ends CUPTI as a whole
//   fork COMMAND         a child does one command and ends
//   print TEXT | cat | exit N | _exit N | abort | kill | segv
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <thread>
#include <vector>

#include "cuda.hpp"
#include "tracesmith/tracesmith.h"

namespace {

using namespace tracesmith::fake;

Cuda& cuda() {
  static auto* c = new Cuda;  // never destroyed: threads of the probe may still look at it
  return *c;
}

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "fake_cuda: %s\n", why.c_str());
  std::_Exit(99);
}

void waitUntil(const std::string& what, const std::function<bool()>& condition) {
  for (int i = 0; !condition(); ++i) {
    if (i > 30000) die("waited in vain: " + what);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void launchMany(int count, uint32_t stream) {
  for (int i = 0; i < count; ++i) cuda().launch("kernel_" + std::to_string(i % 7), stream);
}

/// A function of the stand-in for CUPTI, by name.
template <typename F>
F standIn(const char* name) {
  void* library = ::dlopen(std::getenv("TRACESMITH_CUPTI"), RTLD_NOW | RTLD_NOLOAD);
  void* symbol = library ? ::dlsym(library, name) : nullptr;
  if (!symbol) die(name);
  return reinterpret_cast<F>(symbol);
}
void* g_graph;  // that is being captured; then the executable one

struct OtherProfiler {
  void (*start)();
  int (*subscribe)();
  void (*stop)();
  void (*finalize)();
  void (*counts)(size_t*, size_t*, size_t*, size_t*);
};

OtherProfiler& otherProfiler() {
  static OtherProfiler other = [] {
    void* library = ::dlopen(std::getenv("FAKE_OTHER_PROFILER"), RTLD_NOW | RTLD_LOCAL);
    if (!library) die(::dlerror());
    OtherProfiler o;
    *reinterpret_cast<void**>(&o.start) = ::dlsym(library, "otherProfilerStart");
    *reinterpret_cast<void**>(&o.subscribe) = ::dlsym(library, "otherProfilerSubscribe");
    *reinterpret_cast<void**>(&o.stop) = ::dlsym(library, "otherProfilerStop");
    *reinterpret_cast<void**>(&o.finalize) = ::dlsym(library, "otherProfilerFinalize");
    *reinterpret_cast<void**>(&o.counts) = ::dlsym(library, "otherProfilerCounts");
    return o;
  }();
  return other;
}

void run(const std::string& command) {
  std::istringstream in(command);
  std::string word, text;
  in >> word;
  auto integer = [&](int fallback) {
    int n;
    return in >> n ? n : fallback;
  };
  auto times = [&](const std::function<void(int)>& f) {
    for (int i = 0, n = integer(1); i < n; ++i) f(i);
  };
  if (word == "init") {
    cuda().init();
  } else if (word == "kernels") {
    const int n = integer(1);
    launchMany(n, static_cast<uint32_t>(integer(7)));
  } else if (word == "threads") {
    const int count = integer(1), n = integer(1);
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) threads.emplace_back(launchMany, n, static_cast<uint32_t>(10 + t));
    for (std::thread& t : threads) t.join();
  } else if (word == "copies") {
    times([](int i) { cuda().copy(static_cast<uint64_t>(i) + 1); });
  } else if (word == "sets") {
    times([](int i) { cuda().set(static_cast<uint64_t>(i) + 1); });
  } else if (word == "peers") {
    times([](int i) { cuda().peerCopy(static_cast<uint64_t>(i) + 1, 2); });
  } else if (word == "graphs") {
    times([](int i) { cuda().graph(static_cast<uint32_t>(i) + 1, 3); });
  } else if (word == "syncs") {
    times([](int i) { cuda().sync(static_cast<uint32_t>(i % 5)); });
  } else if (word == "overheads") {
    times([](int) { cuda().overhead(1); });
  } else if (word == "calls") {
    times([](int) {
      cuda().call(10);
      cuda().driverCall(12);
    });
  } else if (word == "hold") {
    cuda().launch("endless", 7, false);
  } else if (word == "bad") {
    cuda().badTimes();
  } else if (word == "unknown") {
    times([](int) { cuda().cupti()->unknown(99); });
  } else if (word == "drop") {
    cuda().cupti()->drop(static_cast<size_t>(integer(1)));
  } else if (word == "on" || word == "off") {
    waitUntil(word, [&] { return (cuda().cupti()->enabled(10) != 0) == (word == "on"); });
  } else if (word == "step") {
    tracesmith_step_begin(integer(0));
  } else if (word == "stepped") {
    tracesmith_step_end();
  } else if (word == "train") {
    const int first = integer(0), last = integer(0);
    for (int step = first; step <= last; ++step) {
      tracesmith_step_begin(step);
      launchMany(1, 7);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the GPU works
      tracesmith_step_end();
    }
  } else if (word == "kinds") {
    std::string kinds;
    for (uint32_t kind = 1; kind < 64; ++kind)
      if (cuda().cupti()->enabled(kind)) kinds += (kinds.empty() ? "" : " ") + std::to_string(kind);
    std::printf("%s\n", kinds.c_str());
    std::fflush(stdout);
  } else if (word == "file") {
    in >> text;
    waitUntil(text, [&] { return ::access(text.c_str(), F_OK) == 0; });
  } else if (word == "touch") {
    in >> text;
    ::close(::open(text.c_str(), O_WRONLY | O_CREAT, 0600));
  } else if (word == "settle") {
    waitUntil("buffers", [] {
      size_t requested, completed;
      cuda().cupti()->buffers(&requested, &completed);
      return requested == completed;
    });
  } else if (word == "capture") {
    std::printf("capture %d\n", tracesmith_get()->graph_capture(1));
    g_graph = standIn<void* (*)()>("fakeGraph")();
  } else if (word == "name") {
    std::getline(in >> std::ws, text);
    tracesmith_get()->graph_names(text.empty() ? nullptr : text.c_str(), 0, nullptr, nullptr);
  } else if (word == "node") {
    standIn<void (*)(void*)>("fakeGraphNode")(g_graph);
  } else if (word == "captured") {
    g_graph = standIn<void* (*)(void*)>("fakeInstantiate")(g_graph);
    tracesmith_get()->graph_capture(0);
  } else if (word == "replay") {
    standIn<void (*)(void*)>("fakeReplay")(g_graph);
  } else if (word == "subscribe") {
    std::printf("subscribe %d\n", otherProfiler().subscribe());
  } else if (word == "profile") {
    otherProfiler().start();
  } else if (word == "profiled") {
    otherProfiler().stop();
  } else if (word == "finalize") {
    otherProfiler().finalize();
  } else if (word == "counts") {
    size_t given, returned, kernels, foreign;
    otherProfiler().counts(&given, &returned, &kernels, &foreign);
    std::printf("given %zu returned %zu kernels %zu foreign %zu\n", given, returned, kernels, foreign);
  } else if (word == "fork") {
    std::getline(in >> std::ws, text);
    std::fflush(nullptr);
    if (pid_t pid = ::fork(); pid == 0) {
      run(text);
      std::exit(0);
    } else {
      ::waitpid(pid, nullptr, 0);
    }
  } else if (word == "print") {
    std::getline(in >> std::ws, text);
    std::printf("%s\n", text.c_str());
  } else if (word == "cat") {
    char buffer[4096];
    for (ssize_t n; (n = ::read(0, buffer, sizeof buffer)) > 0;) (void)!::write(1, buffer, static_cast<size_t>(n));
  } else if (word == "exit") {
    std::exit(integer(0));
  } else if (word == "_exit") {
    std::fflush(nullptr);
    ::_exit(integer(0));
  } else if (word == "abort") {
    std::abort();
  } else if (word == "kill") {
    ::raise(SIGKILL);
  } else if (word == "segv") {
    ::raise(SIGSEGV);
  } else if (word != "later") {
    die("unknown command: " + command);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], "later") != 0) cuda().init();
  for (int i = 1; i < argc; ++i) run(argv[i]);
  return 0;
}
