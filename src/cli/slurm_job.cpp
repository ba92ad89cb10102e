#include "cli/slurm_job.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/file.hpp"

namespace tracesmith::cli {
namespace {

struct Answer {
  std::string out, error;
  bool ok = false;
};

/// Runs a program and takes what it prints. Slurm's answers are short: a pipe holds them.
Result<Answer> ask(const std::vector<std::string>& words) {
  int out[2], error[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return errnoStatus("create", "a pipe");
  if (::pipe2(error, O_CLOEXEC) != 0) return errnoStatus("create", "a pipe");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, error[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& w : words) argv.push_back(const_cast<char*>(w.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  ::close(error[1]);
  Answer answer;
  auto read = [](int fd, std::string& text) {
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR);)
      if (n > 0) text.append(buffer, static_cast<size_t>(n));
    ::close(fd);
  };
  read(out[0], answer.out);
  read(error[0], answer.error);
  if (failed != 0) return Status::unsupported("--slurm needs Slurm's " + words[0] + ": " + std::strerror(failed));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  answer.ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return answer;
}

std::string firstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

bool SlurmJob::has(std::string_view node) const {
  const auto label = [](std::string_view name) { return name.substr(0, name.find('.')); };
  return std::any_of(nodes.begin(), nodes.end(), [&](const std::string& n) { return label(n) == label(node); });
}

Result<SlurmJob> slurmJob(const std::string& id) {
  SlurmJob job;
  job.id = id;
  if (id.empty() || id.find_first_not_of("0123456789_") != id.npos)
    return Status::invalid("'" + id + "' is not the id of a Slurm job, such as 4711 or 4711_3");
  const Result<Answer> found = ask({"squeue", "-h", "-j", id, "-o", "%T %N"});
  if (!found) return found.status();
  if (!found->ok) {
    if (found->error.find("Invalid job id") != std::string::npos) return job;
    return Status::unavailable("squeue: " + firstLine(found->error));
  }
  std::istringstream words(found->out);
  std::string list;
  words >> job.state >> list;
  if (list.empty()) return job;
  const Result<Answer> names = ask({"scontrol", "show", "hostnames", list});
  if (!names) return names.status();
  if (!names->ok) return Status::unavailable("scontrol: " + firstLine(names->error));
  std::istringstream lines(names->out);
  for (std::string name; lines >> name;) job.nodes.push_back(name);
  return job;
}

}  // namespace tracesmith::cli
