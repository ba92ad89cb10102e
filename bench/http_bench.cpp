// Pages and requests while events arrive: a master, an agent, a simulated job as fast as it is read. In turns with
// nobody asking, and with 50 pages that listen and 200 mixed requests a second: how long requests take, and what they
// cost the stream of events.
#include <httplib.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "base/statistics.hpp"
#include "measure.hpp"

using namespace tracesmith::bench;
using tracesmith::median;
using Clock = std::chrono::steady_clock;

namespace {

class Process {
 public:
  Process(std::vector<std::string> args, const std::string& out) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // nobody stays behind when the benchmark gives up
    (void)!::freopen(out.c_str(), "w", stdout);
    std::vector<char*> argv = {const_cast<char*>(TRACESMITH_BIN)};
    for (std::string& a : args) argv.push_back(a.data());
    argv.push_back(nullptr);
    ::execv(TRACESMITH_BIN, argv.data());
    ::_exit(127);
  }
  ~Process() {
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_;
};

/// The number after `key`, or -1.
double number(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  return at == std::string::npos ? -1 : std::atof(text.c_str() + at + key.size());
}

std::string readFile(const std::string& path) {
  std::string text(4096, '\0');
  FILE* f = std::fopen(path.c_str(), "r");
  if (!f) return "";
  text.resize(std::fread(text.data(), 1, text.size(), f));
  std::fclose(f);
  return text;
}

double wait(const char* what, const std::function<double()>& value) {
  for (int i = 0; i < 600; ++i) {
    if (const double v = value(); v > 0) return v;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::fprintf(stderr, "%s: it does not get there\n", what);
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  usage(argc, argv, "http_bench [--seconds N] [--turns N] [--pages N] [--rate N] [--speed X] [--smoke]");
  const bool smoke = flag(argc, argv, "--smoke");
  const double seconds = std::stod(option(argc, argv, "--seconds", smoke ? "1" : "10"));
  const int turns = std::stoi(option(argc, argv, "--turns", smoke ? "1" : "5"));
  const int pages = std::stoi(option(argc, argv, "--pages", "50"));
  const int rate = std::stoi(option(argc, argv, "--rate", "200"));
  const std::string speed = option(argc, argv, "--speed", "0");
  char pattern[] = "/tmp/tracesmith-bench-XXXXXX";
  const std::string dir = ::mkdtemp(pattern);
  ::mkdir((dir + "/rings").c_str(), 0700);
  ::setenv("TRACESMITH_DIR", (dir + "/rings").c_str(), 1);
  {
    Process master({"cluster", "master", "--port", "0", "--http-port", "-1", "--json", "--data-dir", dir + "/m"},
                   dir + "/master");
    const auto port =
        static_cast<int>(wait("master", [&] { return number(readFile(dir + "/master"), "\"http_port\":"); }));
    const auto grpc = static_cast<int>(number(readFile(dir + "/master"), "\"port\":"));
    Process agent({"cluster", "agent", "--port", "0", "--master", "127.0.0.1:" + std::to_string(grpc), "--data-dir",
                   dir + "/a", "--node-id", "node0"},
                  dir + "/agent");
    httplib::Client client("127.0.0.1", port);
    auto get = [](httplib::Client& c, const std::string& path) {
      auto r = c.Get(path);
      return r ? r->body : std::string();
    };
    auto post = [&](const std::string& path, const std::string& body) {
      auto r = client.Post(path, body, "application/json");
      return r ? r->body : std::string();
    };
    wait("agent", [&] { return get(client, "/api/v1/nodes").find("\"healthy\":true") != std::string::npos ? 1.0 : 0; });
    Process job({"synth", "--live", "--ranks", "2", "--gpus-per-node", "2", "--speed", speed}, dir + "/job");
    wait("job", [&] { return std::filesystem::is_empty(dir + "/rings") ? 0.0 : 1; });
    std::this_thread::sleep_for(std::chrono::seconds(1));
    // A session of its own to look at, complete before the measurement.
    post("/api/v1/sessions", "{\"name\":\"seen\",\"duration_s\":2}");
    wait("session",
         [&] { return get(client, "/api/v1/sessions").find("\"state\":\"complete\"") != std::string::npos ? 1.0 : 0; });
    const std::string sessions = get(client, "/api/v1/sessions");
    const std::string id = sessions.substr(sessions.find("\"id\":\"") + 6, 12);
    const double length =
        wait("timeline", [&] { return number(get(client, "/api/v1/traces/" + id + "/timeline"), "\"duration_ns\":"); });
    if (length < 1e9) {
      std::fprintf(stderr, "the session of two seconds has only %.0f ns\n", length);
      return 1;
    }
    std::string tracks = "0";
    const std::string timeline = get(client, "/api/v1/traces/" + id + "/timeline");
    size_t there = 0;
    for (size_t at = timeline.find("\"kind\":"); at != std::string::npos; at = timeline.find("\"kind\":", at + 1))
      if (there++ > 0 && there <= 6) tracks += "," + std::to_string(there - 1);
    post("/api/v1/sessions", "{\"name\":\"load\"}");
    auto stored = [&] { return number(get(client, "/api/v1/nodes"), "\"stored_events\":"); };
    wait("events", [&] { return stored(); });

    std::atomic<bool> asking{false}, over{false};
    std::mutex mutex;  // guards what follows
    std::vector<double> times;
    std::map<std::string, std::vector<double>> by_path;
    uint64_t failed = 0;
    const int threads = 10;
    std::vector<std::thread> users;
    for (int u = 0; u < threads; ++u)
      users.emplace_back([&, u] {
        httplib::Client c("127.0.0.1", port);
        c.set_keep_alive(true);
        const std::string trace = "/api/v1/traces/" + id;
        const std::vector<std::string> paths = {
            "/api/v1/nodes",
            "/api/v1/metrics/latest",
            trace + "/tiles?width=1500&tracks=" + tracks,
            "/api/v1/sessions",
            trace + "/tiles?width=1500&tracks=" + tracks + "&from=" + std::to_string(static_cast<int64_t>(length / 3)) +
                "&to=" + std::to_string(static_cast<int64_t>(length / 3 + length / 100)),
            "/api/v1/metrics/series?metric=gpu_utilization_percent",
            "/status",
            trace + "/stats?tracks=" + tracks,
            "/api/v1/hang",
            "/metrics"};
        auto next = Clock::now();
        for (size_t n = static_cast<size_t>(u); !over; ++n) {
          if (!asking) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            next = Clock::now();
            continue;
          }
          next += std::chrono::microseconds(1'000'000 * threads / rate);
          std::this_thread::sleep_until(next);
          const std::string& path = paths[n % paths.size()];
          const auto began = Clock::now();
          auto r = c.Get(path);
          const double took = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
          std::lock_guard lock(mutex);
          times.push_back(took);
          by_path[path.substr(0, path.find('?'))].push_back(took);
          if (r && r->status == 200) continue;
          if (failed++ == 0)
            std::fprintf(stderr, "%s: %s\n", path.c_str(), r ? r->body.substr(0, 200).c_str() : "no answer");
        }
      });
    std::vector<double> quiet, loaded;
    auto turn = [&](std::vector<double>& into) {
      const double before = stored();
      const auto began = Clock::now();
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      into.push_back((stored() - before) / std::chrono::duration<double>(Clock::now() - began).count());
    };
    std::atomic<uint64_t> heard{0};
    for (int i = 0; i < turns; ++i) {
      turn(quiet);
      std::atomic<bool> listening{true};
      std::vector<std::thread> listeners;
      for (int p = 0; p < pages; ++p)
        listeners.emplace_back([&] {
          httplib::Client c("127.0.0.1", port);
          c.Get("/api/v1/events", [&](const char*, size_t size) {
            heard += size;
            return listening.load();
          });
        });
      asking = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      turn(loaded);
      asking = false;
      listening = false;
      for (std::thread& l : listeners) l.join();
    }
    over = true;
    for (std::thread& u : users) u.join();
    std::vector<double> ratios;
    for (size_t i = 0; i < quiet.size(); ++i) ratios.push_back(loaded[i] / quiet[i]);
    std::sort(times.begin(), times.end());
    auto at = [&](double share) {
      return times[std::min(times.size() - 1, static_cast<size_t>(share * static_cast<double>(times.size())))];
    };
    std::printf(
        "%zu requests (%d a second asked for) beside %d pages: p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, most %.1f ms; "
        "%llu failed\n",
        times.size(), rate, pages, at(0.5), at(0.9), at(0.99), times.back(), static_cast<unsigned long long>(failed));
    for (auto& [path, list] : by_path)
      std::printf("  %-44s p50 %6.1f ms, most %6.1f ms\n", path.c_str(), median(list),
                  *std::max_element(list.begin(), list.end()));
    std::printf(
        "events: %.2f million/s alone, %.2f million/s with them; ratio %.3f (median of %d turns; %.3f to %.3f); pages "
        "heard %.1f MB\n",
        median(quiet) / 1e6, median(loaded) / 1e6, median(ratios), turns,
        *std::min_element(ratios.begin(), ratios.end()), *std::max_element(ratios.begin(), ratios.end()),
        static_cast<double>(heard) / 1e6);
  }
  (void)std::system(("rm -rf " + dir).c_str());
}
