// XID errors of all GPUs.
#include <map>

#include "hardware/nvidia/gpus.hpp"
#include "hardware/nvidia/source.hpp"

namespace tracesmith::hardware {
namespace {

using nvml::Device;
using nvml::Functions;
using nvml::Return;

class NvidiaEvents : public Source {
 public:
  NvidiaEvents(std::shared_ptr<NvmlPool> pool, const Inventory& inventory)
      : Source("nvidia events", -1, rateBit(Rate::slow)), pool_(std::move(pool)) {
    for (const Gpu& g : inventory.gpus) index_of_[g.pci] = g.index;
  }
  ~NvidiaEvents() override { close(); }

  Status open() override {
    close();
    TS_TRY(pool_->get(session_));
    uint32_t count = 0;
    Return r = session_->call(&Functions::count, &count);
    if (r == nvml::kSuccess) r = session_->call(&Functions::eventSetCreate, &set_);
    if (r != nvml::kSuccess) return nvmlFailure(name(), r);
    registered_ = 0;
    for (uint32_t i = 0; i < count; ++i) {
      Device d = nullptr;
      if (session_->call(&Functions::handle, i, &d) == nvml::kSuccess &&
          session_->call(&Functions::registerEvents, d, nvml::kEventXid, set_) == nvml::kSuccess)
        ++registered_;
    }
    return {};
  }

  Status read(Rate, Batch& out) override {
    if (registered_ == 0) {
      out.add(Metric::gpu_xid, kNotSupported);
      return {};
    }
    for (;;) {
      nvml::EventData event{};
      const Return r = session_->call(&Functions::eventSetWait, set_, &event, 1u);
      if (r == nvml::kTimeout) return {};
      if (r != nvml::kSuccess) {
        pool_->broken(session_);
        close();
        return nvmlFailure(name(), r);
      }
      if (!(event.type & nvml::kEventXid)) continue;
      nvml::PciInfo pci{};
      int32_t device = -1;
      if (session_->call(&Functions::pci, event.device, &pci) == nvml::kSuccess)
        if (auto i = index_of_.find(pciName(pci)); i != index_of_.end()) device = i->second;
      out.add(Metric::gpu_xid, static_cast<double>(event.data));
      out.samples().back().device = device;
    }
  }

 private:
  void close() {
    if (session_ && set_) (void)session_->call(&Functions::eventSetFree, set_);
    set_ = nullptr;
    session_.reset();
  }

  std::shared_ptr<NvmlPool> pool_;
  std::map<std::string, int32_t> index_of_;
  std::shared_ptr<nvml::Session> session_;
  nvml::EventSet set_ = nullptr;
  int registered_ = 0;
};

}  // namespace

std::unique_ptr<Source> nvidiaEventSource(std::shared_ptr<NvmlPool> pool, const Inventory& inventory) {
  return std::make_unique<NvidiaEvents>(std::move(pool), inventory);
}

}  // namespace tracesmith::hardware
