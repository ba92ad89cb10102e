#include "cluster/master/live_alerts.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <sstream>

#include "base/text.hpp"
#include "model/travel_json.hpp"

extern char** environ;

namespace tracesmith::cluster {

using namespace model;
using namespace std::chrono_literals;

namespace {

constexpr int64_t kEveryNs = 30'000'000'000;  // alerts of one kind are told this often at most
constexpr size_t kMostWaiting = 16;
constexpr auto kCommandTime = 30s;

/// Runs a program with a text on its standard input. It does not inherit what the server blocks or ignores.
Status runCommand(const std::vector<std::string>& command, const std::string& input) {
  const int in = ::memfd_create("alert", MFD_CLOEXEC);
  if (in < 0) return Status::io(std::string("no memory file: ") + std::strerror(errno));
  const bool written =
      ::write(in, input.data(), input.size()) == static_cast<ssize_t>(input.size()) && ::lseek(in, 0, SEEK_SET) == 0;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t none, usual;
  ::sigemptyset(&none);
  ::sigemptyset(&usual);
  for (int n : {SIGPIPE, SIGINT, SIGTERM}) ::sigaddset(&usual, n);
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &usual);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  const int error = written ? ::posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environ) : EIO;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in);
  if (error != 0) return Status::io("cannot run " + command[0] + ": " + std::strerror(error));
  const auto deadline = std::chrono::steady_clock::now() + kCommandTime;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      return Status::io(command[0] + " did not finish in time and was killed");
    }
    std::this_thread::sleep_for(10ms);
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return Status::io(command[0] + (WIFEXITED(status) ? " exited with " + std::to_string(WEXITSTATUS(status))
                                                    : " was killed by signal " + std::to_string(WTERMSIG(status))));
}

}  // namespace

Result<std::unique_ptr<AlertSender>> AlertSender::create(const std::string& webhook, const std::string& command,
                                                         Audit audit) {
  std::unique_ptr<AlertSender> sender(new AlertSender());
  sender->audit_ = std::move(audit);
  if (!webhook.empty()) {
    Result<HttpUrl> url = parseHttpUrl(webhook);
    if (!url) return url.status();
    sender->webhook_ = *url;
  }
  std::istringstream words(command);
  for (std::string word; words >> word;) sender->command_.push_back(word);
  sender->thread_ = std::thread([s = sender.get()] { s->loop(); });
  return sender;
}

AlertSender::~AlertSender() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AlertSender::send(const Alert& alert, const HangVerdict& verdict) {
  std::lock_guard lock(mutex_);
  auto [last, fresh] = last_ns_.try_emplace(alert.kind, 0);
  if ((!fresh && alert.t_ns - last->second < kEveryNs) || queue_.size() >= kMostWaiting) {
    ++left_out_;
    return;
  }
  last->second = alert.t_ns;
  std::string json;
  JsonWriter w(json);
  w.beginObject().key("alert").raw(toJson(alert)).field("left_out", left_out_);
  w.key("hang").raw(toJson(model::HangAnswer{verdict, {}})).endObject();
  left_out_ = 0;
  queue_.push_back({nameOf(alert.kind), std::move(json)});
  changed_.notify_all();
}

void AlertSender::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Message message = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    if (webhook_) audit_("webhook", message.kind, httpPost(*webhook_, message.json));
    if (!command_.empty()) audit_("on-alert", message.kind, runCommand(command_, message.json));
    lock.lock();
  }
}

}  // namespace tracesmith::cluster
