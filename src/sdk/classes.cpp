// The classes of libtracesmith_c.so: which methods they have.
#include "capture/ring/node_folder.hpp"
#include "sdk/balance.hpp"
#include "sdk/bind.hpp"
#include "sdk/object.hpp"
#include "sdk/recorder.hpp"
#include "sdk/schedule.hpp"
#include "sdk/structs.hpp"
#include "sdk/trace_object.hpp"

namespace tracesmith::sdk {
namespace {

using namespace cluster;

const Methods<Recorder>& recorder() {
  static const auto* list = &(new Methods<Recorder>)
                                 ->add("start", &Recorder::start)
                                 .add("stop", &Recorder::stop)
                                 .add("isRecording", &Recorder::isRecording);
  return *list;
}

const Methods<MultiGPUProfiler>& profiler() {
  using P = MultiGPUProfiler;
  auto events = +[](P& p, const uint64_t& most) {
    std::vector<TraceEvent> out;
    p.getEvents(out, most);
    return out;
  };
  auto from = +[](P& p, const uint32_t& gpu) {
    std::vector<TraceEvent> out;
    p.getEventsFromGPU(gpu, out);
    return out;
  };
  static const auto* list = &(new Methods<P>)
                                 ->add("initialize", &P::initialize)
                                 .add("finalize", &P::finalize)
                                 .add("lastError", &P::lastError)
                                 .add("addGPU", &P::addGPU)
                                 .add("removeGPU", &P::removeGPU)
                                 .add("getActiveGPUs", &P::getActiveGPUs)
                                 .add("startCapture", &P::startCapture)
                                 .add("stopCapture", &P::stopCapture)
                                 .add("isCapturing", &P::isCapturing)
                                 .add("getEvents", events)
                                 .add("getEventsFromGPU", from)
                                 .add("totalEventsCaptured", &P::totalEventsCaptured)
                                 .add("eventsPerGPU", &P::eventsPerGPU)
                                 .add("totalEventsDropped", &P::totalEventsDropped)
                                 .add("getAllDeviceInfo", &P::getAllDeviceInfo)
                                 .add("getDeviceInfo", &P::getDeviceInfo)
                                 .add("getNVLinkTransfers", &P::getNVLinkTransfers);
  return *list;
}

const Methods<NCCLTracker>& tracker() {
  using T = NCCLTracker;
  auto correlate = +[](T& t, const std::vector<TraceEvent>& events) {
    std::vector<TraceEvent> out = events;
    t.correlateWithGPUEvents(out);
    return out;
  };
  static const auto* list = &(new Methods<T>)
                                 ->add("installHooks", &T::installHooks)
                                 .add("removeHooks", &T::removeHooks)
                                 .add("isHooked", &T::isHooked)
                                 .add("lastError", &T::lastError)
                                 .add("startCapture", &T::startCapture)
                                 .add("stopCapture", &T::stopCapture)
                                 .add("clear", &T::clear)
                                 .add("getOperations", &T::getOperations)
                                 .add("getOperationsByType", &T::getOperationsByType)
                                 .add("getOperationsByComm", &T::getOperationsByComm)
                                 .add("getInFlight", &T::getInFlight)
                                 .add("operationsDropped", &T::operationsDropped)
                                 .add("toTraceEvents", &T::toTraceEvents)
                                 .add("correlateWithGPUEvents", correlate)
                                 .add("getStatistics", &T::getStatistics);
  return *list;
}

Status hearOperations(NCCLTracker& tracker, Object::Listener listener) {
  if (!listener) {
    tracker.setOperationCallback(nullptr);
    return {};
  }
  tracker.setOperationCallback([listener = std::move(listener)](const NCCLOperation& operation) {
    std::string json;
    JsonWriter w(json);
    write(w, operation);
    listener(json);
  });
  return {};
}

struct Topology : GPUTopology {
  explicit Topology(const NoConfig&) {}
};

const Methods<Topology>& topology() {
  using T = GPUTopology;
  auto link = +[](Topology& t, const uint32_t& a, const uint32_t& b) {
    const GPULink* found = t.getLink(a, b);
    return found ? std::optional<GPULink>(*found) : std::nullopt;
  };
  static const auto* list = &(new Methods<Topology>)
                                 ->add("discover", &T::discover)
                                 .add("lastError", &T::lastError)
                                 .add("getTopology", &T::getTopology)
                                 .add("getLinkType", &T::getLinkType)
                                 .add("getBandwidth", &T::getBandwidth)
                                 .add("canAccessPeer", &T::canAccessPeer)
                                 .add("getLink", link)
                                 .add("getOptimalPath", &T::getOptimalPath)
                                 .add("getPathBandwidth", &T::getPathBandwidth)
                                 .add("estimateTransferTime", &T::estimateTransferTime)
                                 .add("toASCII", &T::toASCII)
                                 .add("toGraphviz", &T::toGraphviz)
                                 .add("toJSON", &T::toJSON)
                                 .add("toSVG", &T::toSVG);
  return *list;
}

const Methods<BalanceCoordinator>& coordinator() {
  using C = BalanceCoordinator;
  static const auto* list = &(new Methods<C>)
                                 ->add("create", &C::create)
                                 .add("createForMaster", &C::createForMaster)
                                 .add("attach", &C::attach)
                                 .add("turn", &C::turn)
                                 .add("undo", &C::undo)
                                 .add("state", &C::state);
  return *list;
}

const Methods<BalanceRank>& balancedRank() {
  using R = BalanceRank;
  static const auto* list = &(new Methods<R>)
                                 ->add("open", &R::open)
                                 .add("due", &R::due)
                                 .add("counted", &R::counted)
                                 .add("ballot", &R::ballot)
                                 .add("begin", &R::begin)
                                 .add("report", &R::report)
                                 .add("outOfMemory", &R::outOfMemory)
                                 .add("notes", &R::notes);
  return *list;
}

/// Divisions by themselves.
struct BalancePlanner {
  explicit BalancePlanner(const NoConfig&) {}
};

const Methods<BalancePlanner>& planner() {
  using namespace schedule;
  auto batches = +[](BalancePlanner&, const int64_t& total, const std::vector<double>& speeds,
                     const std::vector<int64_t>& most) -> Result<std::vector<int64_t>> {
    std::vector<BatchLimits> limits(speeds.size());
    for (size_t r = 0; r < most.size() && r < limits.size(); ++r) {
      if (most[r] > 0) limits[r].most = most[r];
    }
    return proportionalBatches(total, speeds, limits);
  };
  auto layers = +[](BalancePlanner&, const std::vector<LayerCost>& costs, const std::vector<Stage>& stages) {
    return partitionLayers(costs, stages);
  };
  auto folder = +[](BalancePlanner&) { return ring::nodeFolder(); };
  static const auto* list =
      &(new Methods<BalancePlanner>)->add("batches", batches).add("layers", layers).add("folder", folder);
  return *list;
}

}  // namespace

const std::vector<Class>& classes() {
  static const auto* list = [] {
    auto* all = new std::vector<Class>{
        traceClass(),
        Bound<Recorder, RecorderConfig, recorder>::of("Recorder"),
        Bound<MultiGPUProfiler, MultiGPUConfig, profiler>::of("MultiGPUProfiler"),
        Bound<NCCLTracker, NCCLTrackerConfig, tracker, hearOperations>::of("NCCLTracker"),
        Bound<Topology, NoConfig, topology>::of("GPUTopology"),
        Bound<BalanceCoordinator, BalanceCoordinatorConfig, coordinator>::of("BalanceCoordinator"),
        Bound<BalanceRank, BalanceRankConfig, balancedRank>::of("BalanceRank"),
        Bound<BalancePlanner, NoConfig, planner>::of("BalancePlanner"),
    };
    for (Class& c : scheduleClasses()) all->push_back(c);
    return all;
  }();
  return *list;
}

void describeStructs(JsonWriter& w) {
  describeSharedStructs(w);
  describeStruct<TraceConfig>(w);
  describeStruct<AnalyzeConfig>(w);
  describeStruct<DiffConfig>(w);
  describeStruct<RecorderConfig>(w);
  describeStruct<Recorded>(w);
  describeStruct<NoConfig>(w);
  describeScheduleStructs(w);
  describeStruct<BalanceCoordinatorConfig>(w);
  describeStruct<BalanceRankConfig>(w);
  describeStruct<BalanceState>(w);
  describeStruct<RankSpeed>(w);
  describeStruct<schedule::BalancerConfig>(w);
  describeStruct<schedule::Plan>(w);
  describeStruct<schedule::RankPlan>(w);
  describeStruct<schedule::PlanOutcome>(w);
  describeStruct<schedule::LayerCost>(w);
  describeStruct<schedule::Stage>(w);
  describeStruct<schedule::LayerPartition>(w);
}

}  // namespace tracesmith::sdk
