#include "cli/task_part.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "base/clock.hpp"
#include "base/count.hpp"
#include "base/file.hpp"
#include "base/natural_order.hpp"
#include "base/text.hpp"
#include "trace/join.hpp"

namespace tracesmith::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecording = ".recording";  // ending of a part while its task records
constexpr const char* kPart = ".sbt";
constexpr const char* kFolder = ".parts-";             // and the id of the tasks, after the name of the output
constexpr const char* kLock = "joining";               // a folder: making one is atomic everywhere
constexpr int64_t kTouch_ns = 10'000'000'000;          // how often a task shows that it lives
constexpr int64_t kDead_s = 60;                        // a task that did not for so long is dead
constexpr auto kJoinLimit = std::chrono::minutes(10);  // for another task that joins

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::optional<Tasks> tasksBy(const std::string& id, const char* task, const char* tasks, const char* local) {
  Tasks out;
  int64_t place = 0;
  if (id.empty() || !parseInt(environment(task), out.task) || !parseInt(environment(tasks), out.tasks)) return {};
  out.first_on_node = parseInt(environment(local), place) && place == 0;
  for (const char c : id) out.id += std::isalnum(static_cast<unsigned char>(c)) || c == '.' ? c : '-';
  return out;
}

std::string folderOf(const Tasks& tasks, const std::string& output) { return output + kFolder + tasks.id; }

struct Seen {
  std::vector<std::string> parts;  // all, in the order of tasks
  bool recording = false;          // a task that lives
  size_t unfinished = 0;
};

Seen look(const std::string& folder, const std::string& own) {
  Seen seen;
  struct stat mine {
  }, s{};
  const bool dated = ::stat(own.c_str(), &mine) == 0;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string path = it->path().string();
    if (path.ends_with(kRecording)) {
      ++seen.unfinished;
      seen.recording |= !dated || ::stat(path.c_str(), &s) != 0 || mine.st_mtime - s.st_mtime < kDead_s;
    } else if (!path.ends_with(kPart)) {
      continue;
    }
    seen.parts.push_back(path);
  }
  std::sort(seen.parts.begin(), seen.parts.end(), NaturalOrder());
  return seen;
}

void touch(const std::string& path) { (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace

std::optional<Tasks> tasksOfLauncher() {
  // The innermost first: mpirun starts its daemons with srun, and their ranks inherit what Slurm told these.
  std::string id = environment("PMIX_NAMESPACE");
  if (id.empty()) id = environment("OMPI_MCA_ess_base_jobid");
  std::optional<Tasks> found =
      tasksBy(id, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK");
  if (!found && !environment("SLURM_STEP_ID").empty())
    found = tasksBy(environment("SLURM_JOB_ID") + "." + environment("SLURM_STEP_ID"), "SLURM_PROCID",
                    "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID");
  return found && found->tasks > 1 ? found : std::nullopt;
}

bool TaskPart::begun(const Tasks& tasks, const std::string& output) {
  std::error_code error;
  return fs::is_directory(folderOf(tasks, output), error);
}

Result<TaskPart> TaskPart::create(const Tasks& tasks, const std::string& output) {
  TaskPart part;
  part.tasks_ = tasks;
  part.output_ = output;
  part.folder_ = folderOf(tasks, output);
  TS_TRY(makePrivateFolder(part.folder_));
  part.path_ = part.folder_ + "/" + std::to_string(tasks.task) + kRecording;
  return part;
}

void TaskPart::alive() {
  const auto now = static_cast<int64_t>(rawClock());
  if (now - touched_ns_ < kTouch_ns) return;
  touched_ns_ = now;
  touch(path_);
}

Result<std::string> TaskPart::done() {
  const std::string part = folder_ + "/" + std::to_string(tasks_.task) + kPart;
  if (::rename(path_.c_str(), part.c_str()) != 0) return errnoStatus("rename", path_);
  path_ = part;
  touch(path_);
  const std::string lock = folder_ + "/" + kLock;
  const auto deadline = std::chrono::steady_clock::now() + kJoinLimit;
  while (std::chrono::steady_clock::now() < deadline) {
    const Seen seen = look(folder_, path_);
    if (seen.recording) return std::string();  // that task will join
    if (::mkdir(lock.c_str(), 0700) == 0) {
      Result<std::string> joined =
          join(seen.parts, seen.unfinished == 0 && seen.parts.size() >= static_cast<size_t>(tasks_.tasks));
      (void)::rmdir(lock.c_str());
      return joined;
    }
    if (errno == ENOENT) return std::string();  // another task has joined all parts
    if (errno != EEXIST) return errnoStatus("create", lock);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return Status::timeout(folder_ +
                         " is locked by a task that does not end: join the parts with `tracesmith import -o " +
                         output_ + " " + folder_ + "`");
}

Result<std::string> TaskPart::join(const std::vector<std::string>& parts, bool all) {
  std::vector<trace::JoinLoss> losses;
  const auto tasks = static_cast<size_t>(tasks_.tasks);
  std::string missing;
  if (!all && parts.size() < tasks) {
    const size_t n = tasks - parts.size();
    missing = std::to_string(n) + " of " + std::to_string(tasks) + (n == 1 ? " tasks is" : " tasks are") +
              " not recorded, or not yet";
    losses.push_back({"missing task", missing, static_cast<int64_t>(tasks - parts.size())});
  }
  for (const std::string& part : parts)
    if (part.ends_with(kRecording))
      losses.push_back({"killed task", "task " + fs::path(part).stem().string() + " did not end its recording", 1});
  Result<trace::JoinReport> report = trace::joinTraces(parts, output_, losses);
  if (!report)
    return Status(report.status().code(), "cannot join the parts in " + folder_ + ": " + report.status().message());
  std::error_code ignored;
  if (all) fs::remove_all(folder_, ignored);
  std::string line = output_ + ": " + counted(report->parts, "task", "tasks") + " on " +
                     counted(report->nodes, "node") + ", " + counted(report->events, "event");
  if (!missing.empty()) line += "; " + missing + ", and the parts stay in " + folder_;
  for (const trace::JoinLoss& loss : losses)
    if (loss.cause == "killed task") line += "; " + loss.detail;
  return line;
}

std::vector<std::string> partsIn(const std::string& folder) {
  return folder.find(kFolder) == folder.npos ? std::vector<std::string>() : look(folder, "").parts;
}

}  // namespace tracesmith::cli
