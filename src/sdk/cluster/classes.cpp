// The classes of libtracesmith_c_cluster.so: which methods they have.
#include "sdk/bind.hpp"
#include "sdk/cluster/structs.hpp"
#include "sdk/object.hpp"

namespace tracesmith::sdk {
namespace {

using namespace cluster;

const Methods<TimeSync>& timeSync() {
  using T = TimeSync;
  static const auto* list = &(new Methods<T>)
                                 ->add("initialize", &T::initialize)
                                 .add("finalize", &T::finalize)
                                 .add("lastError", &T::lastError)
                                 .add("synchronize", &T::synchronize)
                                 .add("synchronizeWithNode", &T::synchronizeWithNode)
                                 .add("toSynchronizedTime", &T::toSynchronizedTime)
                                 .add("toLocalTime", &T::toLocalTime)
                                 .add("getCurrentOffset", &T::getCurrentOffset)
                                 .add("setManualOffset", &T::setManualOffset)
                                 .add("correlateGPUTimestamps", &T::correlateGPUTimestamps)
                                 .add("getGPUOffset", &T::getGPUOffset)
                                 .add("getAverageOffset", &T::getAverageOffset)
                                 .add("getOffsetStdDev", &T::getOffsetStdDev);
  return *list;
}

const Methods<NodeAggregator>& node() {
  using N = NodeAggregator;
  static const auto* list = &(new Methods<N>)
                                 ->add("initialize", &N::initialize)
                                 .add("finalize", &N::finalize)
                                 .add("lastError", &N::lastError)
                                 .add("getNodeInfo", &N::getNodeInfo)
                                 .add("isConnected", &N::isConnected)
                                 .add("isCapturing", &N::isCapturing)
                                 .add("startCapture", &N::startCapture)
                                 .add("stopCapture", &N::stopCapture)
                                 .add("exportTrace", &N::exportTrace)
                                 .add("getNCCLOperations", &N::getNCCLOperations)
                                 .add("getEventCount", &N::getEventCount)
                                 .add("synchronizeTime", &N::synchronizeTime)
                                 .add("getTimeOffset", &N::getTimeOffset)
                                 .add("getStatistics", &N::getStatistics);
  return *list;
}

const Methods<ClusterMaster>& master() {
  using M = ClusterMaster;
  auto stop = +[](M& m, const std::optional<double>& wait_s) {
    return wait_s ? m.stopClusterCapture(*wait_s) : m.stopClusterCapture();
  };
  static const auto* list = &(new Methods<M>)
                                 ->add("start", &M::start)
                                 .add("stop", &M::stop)
                                 .add("isRunning", &M::isRunning)
                                 .add("port", &M::port)
                                 .add("lastError", &M::lastError)
                                 .add("registerNode", &M::registerNode)
                                 .add("unregisterNode", &M::unregisterNode)
                                 .add("getConnectedNodes", &M::getConnectedNodes)
                                 .add("isNodeConnected", &M::isNodeConnected)
                                 .add("startClusterCapture", &M::startClusterCapture)
                                 .add("stopClusterCapture", stop)
                                 .add("synchronizeClusterTime", &M::synchronizeClusterTime)
                                 .add("getNodeTimeOffsets", &M::getNodeTimeOffsets)
                                 .add("getClusterStatistics", &M::getClusterStatistics)
                                 .add("eventsLost", &M::eventsLost)
                                 .add("collectAllTraces", &M::collectAllTraces)
                                 .add("collectTracesFromNodes", &M::collectTracesFromNodes)
                                 .add("buildClusterTimeline", &M::buildClusterTimeline)
                                 .add("getClusterCommMatrix", &M::getClusterCommMatrix)
                                 .add("exportToSBT", &M::exportToSBT)
                                 .add("exportToPerfetto", &M::exportToPerfetto)
                                 .add("exportToJSON", &M::exportToJSON);
  return *list;
}

Status hearEvents(ClusterMaster& master, Object::Listener listener) {
  if (!listener) {
    master.unsubscribeFromEvents();
    return {};
  }
  const bool subscribed =
      master.subscribeToEvents([listener = std::move(listener)](const std::string& node_id, const TraceEvent& event) {
        std::string json;
        JsonWriter w(json);
        write(w, LiveEventOf{node_id, event});
        listener(json);
      });
  return subscribed ? Status() : master.lastStatus();
}

}  // namespace

const std::vector<Class>& classes() {
  static const auto* list = new std::vector<Class>{
      Bound<TimeSync, TimeSyncConfig, timeSync>::of("TimeSync"),
      Bound<NodeAggregator, NodeAggregatorConfig, node>::of("NodeAggregator"),
      Bound<ClusterMaster, ClusterMasterConfig, master, hearEvents>::of("ClusterMaster"),
  };
  return *list;
}

void describeStructs(JsonWriter& w) {
  describeSharedStructs(w);
  describeStruct<TimeSyncConfig>(w);
  describeStruct<SyncResult>(w);
  describeStruct<NodeAggregatorConfig>(w);
  describeStruct<NodeInfo>(w);
  describeStruct<NodeStatistics>(w);
  describeStruct<ClusterMasterConfig>(w);
  describeStruct<NodeConnection>(w);
  describeStruct<ClusterStatistics>(w);
  describeStruct<ClusterTimeline>(w);
  describeStruct<TraceRecord>(w);
  describeStruct<analysis::CommCells>(w);
  describeStruct<LiveEventOf>(w);
}

}  // namespace tracesmith::sdk
