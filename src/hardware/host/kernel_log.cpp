// What the kernel says about GPUs and their links, from /dev/kmsg.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "hardware/host/sources.hpp"

namespace tracesmith::hardware {
namespace {

class KernelLog : public Source {
 public:
  explicit KernelLog(const std::string& root)
      : Source("kernel log", -1, rateBit(Rate::slow)), path_(root + "/dev/kmsg") {}
  ~KernelLog() override {
    if (fd_ >= 0) ::close(fd_);
  }

  Status open() override {
    if (fd_ >= 0) ::close(fd_);
    fd_ = ::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd_ < 0)
      return Status::io(std::string(errno == EACCES || errno == EPERM ? "permission denied" : "file missing") +
                        ": cannot read the kernel's log " + path_ + ": " + std::strerror(errno));
    ::lseek(fd_, 0, SEEK_END);  // what was said before we came is not ours
    return {};
  }

  Status read(Rate, Batch& out) override {
    char record[8192];  // one read gives one record: "6,339,5140900,-;NVRM: …"
    for (int most = 0; most < 1000; ++most) {
      const ssize_t n = ::read(fd_, record, sizeof record);
      if (n < 0 && errno == EPIPE) continue;  // overwritten before we read it: go on with the next
      if (n < 0 && errno != EAGAIN && errno != EINTR)
        return Status::io("kernel log gone: cannot read " + path_ + ": " + std::strerror(errno));
      if (n <= 0) return {};
      std::string_view rest(record, static_cast<size_t>(n));
      while (!rest.empty()) {
        const size_t end = rest.find('\n');
        std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        if (const size_t text = line.find(';'); text != std::string_view::npos) line.remove_prefix(text + 1);
        if (aboutGpus(line)) out.add(Metric::host_kernel_log, 1, out.text(line.substr(0, 300)));
      }
    }
    return {};
  }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace

bool aboutGpus(std::string_view line) {
  for (const char* word : {"NVRM", "nvidia", "NVLink", "nvlink", "nvswitch", "amdgpu", "amdkfd", "i915 ", "xe 0000",
                           "AER:", "pcieport", "mlx5_core", "infiniband", "msm_dpu", "adreno"})
    if (line.find(word) != std::string_view::npos) return true;
  return false;
}

std::unique_ptr<Source> kernelLogSource(const std::string& root) { return std::make_unique<KernelLog>(root); }

}  // namespace tracesmith::hardware
