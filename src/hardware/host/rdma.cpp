// InfiniBand and RoCE ports: /sys/class/infiniband.
#include "hardware/host/sources.hpp"
#include "hardware/sysfs.hpp"

namespace tracesmith::hardware {
namespace {

/// A counter of a port, and its true unit.
struct Kind {
  const char *folder, *file;
  Metric metric;
  double scale;  // of port_…_data: the hardware counts words of four bytes
  int bits;      // mlx5's Q counters are 32 bits wide
  bool congestion = false;
};

constexpr Kind kKinds[] = {
    {"counters", "port_xmit_data", Metric::rdma_tx_bytes, 4, 64},
    {"counters", "port_rcv_data", Metric::rdma_rx_bytes, 4, 64},
    {"hw_counters", "tx_bytes", Metric::rdma_tx_bytes, 1, 64},  // EFA
    {"hw_counters", "rx_bytes", Metric::rdma_rx_bytes, 1, 64},
    {"counters", "port_xmit_packets", Metric::rdma_tx_packets, 1, 64},
    {"counters", "port_rcv_packets", Metric::rdma_rx_packets, 1, 64},
    {"counters", "port_xmit_wait", Metric::rdma_tx_wait_ticks, 1, 64},
    {"counters", "port_xmit_discards", Metric::rdma_errors, 1, 64},
    {"counters", "port_rcv_errors", Metric::rdma_errors, 1, 64},
    {"counters", "symbol_error", Metric::rdma_errors, 1, 64},
    {"counters", "link_error_recovery", Metric::rdma_errors, 1, 64},
    {"counters", "link_downed", Metric::rdma_errors, 1, 64},
    {"counters", "local_link_integrity_errors", Metric::rdma_errors, 1, 64},
    {"counters", "excessive_buffer_overrun_errors", Metric::rdma_errors, 1, 64},
    {"hw_counters", "out_of_buffer", Metric::rdma_errors, 1, 32},
    {"hw_counters", "out_of_sequence", Metric::rdma_errors, 1, 32},
    {"hw_counters", "packet_seq_err", Metric::rdma_errors, 1, 32},
    {"hw_counters", "implied_nak_seq_err", Metric::rdma_errors, 1, 32},
    {"hw_counters", "rnr_nak_retry_err", Metric::rdma_errors, 1, 32},
    {"hw_counters", "local_ack_timeout_err", Metric::rdma_errors, 1, 32},
    {"hw_counters", "np_cnp_sent", Metric::rdma_errors, 1, 32, true},
    {"hw_counters", "np_ecn_marked_roce_packets", Metric::rdma_errors, 1, 32, true},
    {"hw_counters", "rp_cnp_handled", Metric::rdma_errors, 1, 32, true},
    {"hw_counters", "roce_adp_retrans", Metric::rdma_errors, 1, 32},
};

class RdmaPorts : public Source {
 public:
  explicit RdmaPorts(const std::string& root)
      : Source("rdma", -1, rateBit(Rate::slow)), folder_(root + "/sys/class/infiniband/") {}

  Status open() override {
    counters_.clear();
    for (const std::string& device : listFolder(folder_))
      for (const std::string& port : listFolder(folder_ + device + "/ports")) {
        const std::string base = folder_ + device + "/ports/" + port + "/", name = device + ":" + port;
        for (const Kind& k : kKinds) {
          const std::string path = base + k.folder + "/" + k.file;
          if (!readNumber(path)) continue;
          counters_.push_back({SmallFile(path), &k, k.metric == Metric::rdma_errors ? name + " " + k.file : name, {}});
        }
      }
    if (counters_.empty()) return Status::io("RDMA ports gone: cannot read anything below " + folder_);
    return {};
  }

  Status read(Rate, Batch& out) override {
    size_t failed = 0;
    for (PortCounter& c : counters_) {
      if (std::optional<int64_t> v = c.file.number())
        out.add(c.kind->metric, c.total.total(static_cast<uint64_t>(*v), c.kind->bits) * c.kind->scale, c.part);
      else
        ++failed;
    }
    if (failed == counters_.size())
      return Status::io("RDMA ports gone: " + counters_[0].file.path() + " and the others can no longer be read");
    return {};
  }

 private:
  struct PortCounter {
    SmallFile file;
    const Kind* kind;
    std::string part;
    Counter total;
  };
  std::string folder_;
  std::vector<PortCounter> counters_;
};

}  // namespace

bool tellsOfCongestion(std::string_view counter) {
  for (const Kind& k : kKinds)
    if (k.file == counter) return k.congestion;
  return false;
}

std::unique_ptr<Source> rdmaSource(const std::string& root) { return std::make_unique<RdmaPorts>(root); }

}  // namespace tracesmith::hardware
