#include "server/sources/cluster_view.hpp"

#include <algorithm>

#include "base/natural_order.hpp"

namespace tracesmith::server {
namespace {

constexpr auto kFresh = std::chrono::milliseconds(200);

}  // namespace

Result<std::shared_ptr<const cluster::ClusterStatus>> ClusterView::status() {
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  if (status_ && now - asked_ < kFresh) return status_;
  Result<cluster::ClusterStatus> status = client_->status();
  if (!status) return status.status();
  std::sort(status->nodes.begin(), status->nodes.end(),
            [](const auto& a, const auto& b) { return naturalOrder(a.node, b.node) < 0; });
  status_ = std::make_shared<const cluster::ClusterStatus>(std::move(*status));
  asked_ = now;
  return status_;
}

Result<cluster::SessionInfo> ClusterView::session(const std::string& id) {
  Result<std::shared_ptr<const cluster::ClusterStatus>> now = status();
  if (!now) return now.status();
  for (const cluster::SessionInfo& s : (*now)->sessions)
    if (s.id == id) return s;
  return Status::notFound("there is no trace " + id.substr(0, 64));
}

void ClusterView::changed() {
  std::lock_guard lock(mutex_);
  status_.reset();
}

}  // namespace tracesmith::server
