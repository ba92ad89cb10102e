#include "cluster/agent/plan_carrier.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "schedule/terms.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;
using namespace schedule;
using Clock = std::chrono::steady_clock;

namespace {
constexpr auto kPeriod = std::chrono::milliseconds(1000);
constexpr int64_t kTellPlans = 30;
constexpr int64_t kActivity = (int64_t{1} << 40) - 1;  // whatever is in the file
constexpr auto kTryAgain = std::chrono::seconds(5);    // a file that is no page may become one
}  // namespace

bool PlanCarrier::open(const std::string& path, uint32_t owner, Page& page) {
  if (page.page) return true;
  if (Clock::now() - page.refused < kTryAgain && page.refused != Clock::time_point()) return false;
  page.refused = Clock::now();
  Result<std::unique_ptr<PlanPage>> opened = PlanPage::openFound(path, owner);
  if (!opened) return false;
  Result<JobTerms> terms = termsOf(**opened);
  if (!terms) return false;
  page.page = std::move(*opened);
  page.terms = std::move(*terms);
  return true;
}

/// Opens pages that are new, and lets go of those whose file is gone.
void PlanCarrier::look() {
  std::set<std::string> there;
  for (const ring::RingFolders::Folder& folder : folders_.folders()) {
    std::error_code error;
    fs::directory_iterator it(folder.path, error);
    size_t files = 0, pages = 0;
    for (; !error && it != fs::directory_iterator() && files < kMostFiles && pages < kMostPages; it.increment(error)) {
      ++files;
      const std::string name = it->path().filename();
      if (!name.starts_with(PlanPage::kPrefix)) continue;
      there.insert(it->path());
      pages += open(it->path(), folder.owner, pages_[it->path()]);
    }
  }
  std::erase_if(pages_, [&](const auto& entry) {
    const bool gone = entry.second.page && entry.second.page->abandoned();
    if (gone) remove(entry.first);
    return gone || !there.contains(entry.first);
  });
}

/// By the folder itself: what its owner puts in its place meanwhile is not touched.
void PlanCarrier::remove(const std::string& path) {
  const fs::path page(path);
  const int folder = ::open(page.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return;
  ::unlinkat(folder, page.filename().c_str(), 0);
  ::close(folder);
}

std::optional<JobNews> PlanCarrier::newsOf(Page& p) {
  if (p.terms.coordination == Coordination::master) {
    if (!p.ours && !p.page->lockCoordinator()) return {};  // another agent carries them
    p.ours = true;
  }
  JobNews news;
  news.terms = p.terms;
  std::vector<int64_t> versions;
  std::vector<JobPlan> plans;
  for (int64_t which = 0; which < 2; ++which) {
    const Result<Plan> plan = p.page->slot(which);
    if (!plan || !checkPlan(*plan, p.terms.ranks, p.terms.total)) continue;
    versions.push_back(plan->version);
    plans.push_back(toTravel(*plan, true));
  }
  // Now and then all plans: a master may have forgotten a job that was silent.
  const bool other_plans = versions != p.told || p.tellings % kTellPlans == 0;
  if (other_plans) news.plans = std::move(plans);
  int64_t activity = 0;
  for (int64_t r = 0; r < p.terms.ranks && static_cast<int64_t>(news.ranks.size()) < kMostLocal; ++r) {
    const Result<RankWords> words = p.page->words(r);
    if (!words) return {};  // it was cut short
    if (words->begun < 1) continue;
    activity += (words->begun & kActivity) + (words->reports & kActivity) + (words->follows.version & kActivity);
    RankNews& rank = news.ranks.emplace_back();
    rank.rank = r;
    rank.begun = words->begun;
    rank.version = words->follows.version;
    rank.from_step = words->follows.step;
    if (words->out_of_memory > 0) rank.out_of_memory = words->out_of_memory;
    int64_t& read = p.read[r];
    const Result<std::vector<StepMeasure>> steps = p.page->reports(r, read);
    if (!steps || words->reports < 0) continue;
    rank.first = std::max<int64_t>(words->reports - static_cast<int64_t>(steps->size()), 0);
    for (const StepMeasure& m : *steps) rank.steps.push_back({m.step, m.samples, m.busy_s, m.wall_s});
    read = std::max(read, rank.first + static_cast<int64_t>(rank.steps.size()));
  }
  if (news.ranks.empty() || (activity == p.activity && versions == p.told))
    return {};  // a job that ended tells nothing
  p.activity = activity;
  p.told = versions;
  ++p.tellings;
  if (p.ours && !p.page->visit()) return {};
  return news;
}

std::vector<JobNews> PlanCarrier::take() {
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (now - taken_ < kPeriod) return {};
  taken_ = now;
  look();
  std::vector<JobNews> all;
  for (auto& [path, page] : pages_)
    if (page.page)
      if (std::optional<JobNews> news = newsOf(page)) all.push_back(std::move(*news));
  return all;
}

void PlanCarrier::rewind() {
  std::lock_guard lock(mutex_);
  for (auto& [path, page] : pages_) {
    page.told.clear();
    page.activity = -1;
    page.tellings = 0;
    page.read.clear();
  }
  taken_ = {};
}

void PlanCarrier::put(const PlanOrder& order) {
  std::lock_guard lock(mutex_);
  for (auto& [path, page] : pages_) {
    if (!page.page || !page.ours || page.terms.job != order.job) continue;
    const Result<Plan> plan = fromTravel(order.plan, page.terms.ranks, page.terms.total);
    const Result<Plan> latest = page.page->latest();
    // One that is there is not written again: a rank may have voted for it.
    if (plan && (!latest || latest->version < plan->version)) (void)page.page->publish(*plan);
    taken_ = {};  // the master waits to hear that it is there
  }
}

}  // namespace tracesmith::cluster
