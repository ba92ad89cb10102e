#include "cluster/agent/agent_summary.hpp"

#include <filesystem>
#include <sstream>
#include <utility>

#include "cluster/wire/segment.hpp"
#include "tracesmith/trace/schema.hpp"

namespace tracesmith::cluster {

namespace fs = std::filesystem;

namespace {

constexpr const char* kPending = "pending-";

std::string pathOf(const Spool& spool, uint64_t number) {
  return spool.folder() + "/" + kPending + std::to_string(number);
}

}  // namespace

Result<std::unique_ptr<AgentSummary>> AgentSummary::begin(Spool& spool, const std::string& state) {
  std::unique_ptr<AgentSummary> summary(new AgentSummary(spool));
  auto write = [s = summary.get(), header = true](std::string_view bytes) mutable {
    std::lock_guard lock(s->mutex_);
    if (!std::exchange(header, false)) s->summary_blocks_.emplace_back(bytes);
    return Status();
  };
  Result<std::unique_ptr<trace::Writer>> out = trace::Writer::create(write);
  if (!out) return out.status();
  summary->out_ = std::move(*out);
  TS_TRY(summary->commit(summary->summary_blocks_, kSummaryStream));  // says that this segment has one
  Result<std::unique_ptr<analysis::SummaryKeeper>> keeper = analysis::SummaryKeeper::create(*summary->out_);
  if (!keeper) return keeper.status();
  summary->keeper_ = std::move(*keeper);
  if (state.empty()) {
    forget(spool);
    return summary;
  }
  if (const Status status = summary->restore(state); !status) {
    trace::LossRow loss;
    loss.cause = summary->writer().string("pending rows gone");
    auto rows = summary->writer().appender();
    loss.detail = rows->text("rows that were in no summary yet are gone: " + status.message());
    TS_TRY(rows->append(loss));
    TS_TRY(rows->flush());
  }
  return summary;
}

Status AgentSummary::restore(const std::string& state) {
  std::istringstream in(state);
  uint64_t size = 0;
  bool whole = false;
  std::string rest;
  in >> number_ >> size >> whole;
  std::getline(in, rest);
  const std::string path = pathOf(spool_, number_++);
  whole_ = whole;
  if (whole) TS_TRY(passOn(false));  // what is pending went into the segment before
  Result<File> file = File::openRead(path);
  if (!file) return file.status();
  std::string bytes(size, '\0');
  size_t got;
  TS_TRY(file->readAt(0, bytes.data(), size, got));
  if (got < size) return Status::corrupt(path + " is shorter than it was");
  return keeper_->restore(bytes, rest);
}

Status AgentSummary::passOn(bool all) {
  auto pass = [this](std::string_view block) {
    std::lock_guard lock(mutex_);
    whole_blocks_.emplace_back(block);
    return Status();
  };
  return keeper_->passOn(pass, all);
}

void AgentSummary::forget(const Spool& spool, const std::string& except) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(spool.folder(), error))
    if (entry.path().filename().string().starts_with(kPending) && entry.path() != except)
      fs::remove(entry.path(), error);
}

Status AgentSummary::alsoWhole(bool whole) {
  if (std::exchange(whole_, whole) == whole) return {};
  return whole ? passOn(true) : keeper_->passOn(nullptr, false);
}

Status AgentSummary::commit(std::vector<std::string>& blocks, uint32_t stream) {
  std::lock_guard lock(mutex_);
  for (const std::string& block : blocks) TS_TRY(spool_.commit(block, stream));
  blocks.clear();
  return {};
}

Status AgentSummary::keep(int64_t raw_ns, bool hurry, bool all) {
  TS_TRY(commit(whole_blocks_, kWholeStream));
  if (working()) return {};
  if (keeper_->started()) {
    TS_TRY(keeper_->finish());
    finished_ = all_;
  }
  if (finished_) TS_TRY(keeper_->keepAll());  // what came meanwhile: little
  TS_TRY(commit(summary_blocks_, kSummaryStream));
  if (finished_) return {};
  if (all) {
    all_ = true;
    all_raw_ = raw_ns;
    return keeper_->startAll();
  }
  return hurry || keeper_->due(raw_ns) ? keeper_->start(raw_ns) : Status();
}

Result<std::string> AgentSummary::save() {
  bool anew;
  const std::string bytes = keeper_->takeUnsaved(anew);
  if (anew) {
    if (pending_.isOpen()) ++number_;
    Result<File> file = File::create(pathOf(spool_, number_));
    if (!file) return file.status();
    pending_ = std::move(*file);
    size_ = 0;
    fresh_ = true;
  }
  TS_TRY(pending_.write(bytes));
  size_ += bytes.size();
  if (finished_) return std::string();
  return std::to_string(number_) + " " + std::to_string(size_) + " " + std::to_string(whole_) + " " + keeper_->state();
}

void AgentSummary::saved() {
  if (finished_)
    forget(spool_);
  else if (!std::exchange(fresh_, false))
    return;
  else
    forget(spool_, pathOf(spool_, number_));
}

}  // namespace tracesmith::cluster
