#include "cli/stored_session.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace tracesmith::cli {
namespace {

// Bytes between two pieces that are cheaper to read than to pass over.
constexpr uint64_t kNear = 64;

}  // namespace

Status fetchSession(cluster::Client& client, const std::string& session, const std::string& path) {
  Progress progress("fetching");
  return client.fetch(session, path, [&](uint64_t bytes) { progress.update(bytes, bytes + 1); });
}

Status StoredSession::open(const std::string& session, const std::vector<std::string>& tables,
                           const std::string& path) {
  Result<File> file = File::create(path);
  if (!file) return file.status();
  file_ = std::move(*file);
  Progress progress("fetching");
  progress_ = &progress;
  const Status came = client_.outline(session, tables, *this);
  progress_ = nullptr;
  TS_TRY(came);
  return ::ftruncate(file_.fd(), static_cast<off_t>(size_)) == 0 ? Status() : errnoStatus("write", path);
}

Status StoredSession::writeAt(uint64_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(file_.fd(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errnoStatus("write", file_.path());
    bytes.remove_prefix(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return {};
}

Status StoredSession::bytes(std::string_view bytes) {
  TS_TRY(writeAt(size_, bytes));
  size_ += bytes.size();
  fetched_ += bytes.size();
  if (progress_) progress_->update(fetched_, fetched_ + 1);
  return {};
}

Status StoredSession::leftOut(const cluster::SegmentName& segment, uint64_t offset, uint64_t size) {
  if (segments_.empty() || !(segments_.back() == segment)) segments_.push_back(segment);
  gaps_[size_] = {size_ + size, segments_.size() - 1, offset};
  size_ += size;
  return {};
}

/// Of bytes in one gap those that are not here.
void StoredSession::addMissing(uint64_t from, uint64_t to, std::vector<Piece>& missing) {
  auto gap = gaps_.upper_bound(from);
  if (gap == gaps_.begin()) return;
  --gap;
  if (from >= gap->second.end) return;  // it came with the outline
  to = std::min(to, gap->second.end);
  std::map<uint64_t, uint64_t>& filled = gap->second.filled;
  auto next = filled.upper_bound(from);
  if (next != filled.begin() && std::prev(next)->second >= from) {
    --next;
    from = std::max(from, next->second);
  }
  while (from < to) {
    while (next != filled.end() && next->second <= from) ++next;
    const uint64_t end = next == filled.end() ? to : std::min(to, next->first);
    if (from < end) missing.push_back({from, end - from});
    from = next == filled.end() ? to : std::max(end, next->second);
  }
}

Status StoredSession::need(const std::vector<query::ByteRange>& ranges) {
  std::vector<Piece> missing;
  for (const query::ByteRange& r : ranges) addMissing(r.offset, r.offset + r.size, missing);
  if (missing.empty()) return {};
  std::sort(missing.begin(), missing.end(), [](const Piece& a, const Piece& b) { return a.at < b.at; });
  // Neighbours in one gap together; the same bytes once.
  std::vector<Piece> wanted;
  for (const Piece& p : missing) {
    if (!wanted.empty()) {
      Piece& last = wanted.back();
      const uint64_t end = last.at + last.size;
      if (p.at <= end + kNear && p.at < std::prev(gaps_.upper_bound(last.at))->second.end) {
        last.size = std::max(end, p.at + p.size) - last.at;
        continue;
      }
    }
    wanted.push_back(p);
  }
  std::vector<cluster::SegmentPiece> pieces;
  for (const Piece& p : wanted) {
    const auto gap = std::prev(gaps_.upper_bound(p.at));
    pieces.push_back({segments_[gap->second.segment], gap->second.offset + (p.at - gap->first), p.size});
  }
  size_t piece = 0;
  uint64_t done = 0, all = 0, came = 0;  // of the piece; of all
  for (const Piece& p : wanted) all += p.size;
  Progress progress("fetching");
  auto take = [&](std::string_view bytes) -> Status {
    fetched_ += bytes.size();
    progress.update(came += bytes.size(), all);
    while (!bytes.empty() && piece < wanted.size()) {
      const std::string_view part = bytes.substr(0, wanted[piece].size - done);
      TS_TRY(writeAt(wanted[piece].at + done, part));
      bytes.remove_prefix(part.size());
      done += part.size();
      if (done < wanted[piece].size) continue;
      ++piece;
      done = 0;
    }
    return {};
  };
  TS_TRY(client_.readPieces(pieces, take));
  for (const Piece& p : wanted) {
    std::map<uint64_t, uint64_t>& filled = std::prev(gaps_.upper_bound(p.at))->second.filled;
    uint64_t& end = filled.try_emplace(p.at, p.at).first->second;
    end = std::max(end, p.at + p.size);
    for (auto it = std::next(filled.find(p.at)); it != filled.end() && it->first <= end; it = filled.erase(it))
      end = std::max(end, it->second);
  }
  return {};
}

}  // namespace tracesmith::cli
