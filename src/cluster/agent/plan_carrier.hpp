// The plans of jobs on this node: carries what their ranks measured from the pages of plans (schedule/plan_page.hpp) to
// the master, and the master's plans into the pages. Without a master, and without this agent, the jobs go on with the
// plans that they have.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "capture/ring/folders.hpp"
#include "cluster/api.hpp"
#include "schedule/plan_page.hpp"

namespace tracesmith::cluster {

/// Thread safe. Pages are files of users, and may be anything: what is no page is left alone. Pages of jobs that were
/// killed are removed.
class PlanCarrier {
 public:
  explicit PlanCarrier(const std::string& ring_folder,
                       std::vector<std::string> roots = ring::RingFolders::rootsFromEnvironment())
      : folders_(ring_folder, std::move(roots), false) {}

  /// What is to be told, at most once a second; one entry for each page in which something is new.
  std::vector<JobNews> take();
  /// A master that knows nothing yet: all is told again.
  void rewind();
  /// Into the page of the job, if it is here.
  void put(const PlanOrder& order);

  static constexpr size_t kMostPages = 32;     ///< of one user
  static constexpr size_t kMostFiles = 4096;   ///< that are looked at in a folder
  static constexpr int64_t kMostLocal = 1024;  ///< ranks of a job on a node

 private:
  struct Page {
    std::unique_ptr<schedule::PlanPage> page;
    JobTerms terms;
    bool ours = false;          // no other agent carries its plans
    std::vector<int64_t> told;  // versions
    int64_t activity = -1;      // of its ranks, as last told: grows with what they write
    int64_t tellings = 0;
    std::map<int64_t, int64_t> read;                  // reports of each rank
    std::chrono::steady_clock::time_point refused{};  // it was no page
  };
  void look();
  bool open(const std::string& path, uint32_t owner, Page& page);
  static std::optional<JobNews> newsOf(Page& page);
  static void remove(const std::string& path);

  std::mutex mutex_;  // guards what follows
  ring::RingFolders folders_;
  std::map<std::string, Page> pages_;  // by path; without a page: it is none
  std::chrono::steady_clock::time_point taken_{};
};

}  // namespace tracesmith::cluster
