"""tracesmith.cluster on simulated GPUs, and recording of one's own process."""

import threading
import time

import pytest

import tracesmith
from tracesmith import cluster

SIM = {"platform": "sim", "profiler": {"sim": {"gpus": 2, "steps": 3, "speed": 50}}}


def until(what, deadline_s=30):
    """What it gives, as soon as that is something."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen within {} s".format(deadline_s))


def test_every_name_is_there_with_both_spellings():
    names = "MultiGPUProfiler MultiGPUConfig GPUTopology NodeAggregator NodeAggregatorConfig ClusterMaster " \
        "ClusterMasterConfig NCCLTracker NCCLOperation TimeSync"
    assert set(names.split()) <= set(cluster.__all__) and all(getattr(cluster, n).__doc__ for n in cluster.__all__)
    assert {"getEventsFromGPU", "get_events_from_gpu"} <= set(dir(cluster.MultiGPUProfiler()))


def test_configurations_have_the_fields_and_defaults_of_the_header():
    config = cluster.MultiGPUConfig(gpu_ids=[1])
    assert config.gpu_ids == [1] and config.per_gpu_buffer_size == 1024 * 1024 and config.platform == "cuda"
    config.profiler.sim.gpus = 4
    assert config.profiler.sim.gpus == 4 and cluster.MultiGPUConfig().profiler.sim.gpus == 8
    with pytest.raises(TypeError, match="no field 'gpus'; its fields are gpu_ids, "):
        cluster.MultiGPUConfig(gpus=[1])
    with pytest.raises(AttributeError, match="no field 'gpu'"):
        config.gpu = 1
    with pytest.raises(tracesmith.Error, match="platform must be one of unknown, cuda, sim"):
        cluster.MultiGPUProfiler(platform="tpu")
    assert cluster.NodeAggregatorConfig().time_sync_config.method == "Custom"
    assert cluster.ClusterMasterConfig().listen_port == 50051


def test_a_profiler_gives_the_events_of_its_gpus():
    profiler = cluster.MultiGPUProfiler(**SIM)
    assert profiler.startCapture() is False and profiler.lastError()
    assert profiler.initialize() and profiler.start_capture() and profiler.isCapturing()
    events = until(lambda: [e for e in profiler.getEvents() if e.type == "KernelComplete"])
    assert events[0].kernel_params.grid_x > 0 and events[0].metadata["simulated"] == "true"
    assert [d.device_id for d in profiler.getAllDeviceInfo()] == [0, 1] == profiler.getActiveGPUs()
    assert profiler.stopCapture() and profiler.totalEventsCaptured() >= len(events)
    with pytest.raises(tracesmith.Error, match="argument 1 must be a whole number"):
        profiler.addGPU("first")
    with pytest.raises(AttributeError, match="no method 'fly'"):
        profiler.fly()
    profiler.close()
    with pytest.raises(tracesmith.Error, match="closed"):
        profiler.isCapturing()


def test_a_tracker_tells_of_operations():
    tracker = cluster.NCCLTracker(**SIM)
    told = []
    tracker.setOperationCallback(told.append)
    assert tracker.installHooks(), tracker.lastError()
    tracker.startCapture()
    operations = until(lambda: [o for o in tracker.getOperations() if not o.in_flight])
    assert isinstance(operations[0], cluster.NCCLOperation) and operations[0].world_size == 2
    until(lambda: told)
    assert told[0].op_type in ("AllReduce", "AllGather", "ReduceScatter") and told[0].end_time > told[0].start_time
    assert tracker.getStatistics().ops_by_type[told[0].op_type] > 0
    assert tracker.getOperationsByType("Broadcast") == []
    with pytest.raises(tracesmith.Error, match="must be one of AllReduce"):
        tracker.getOperationsByType("Everything")
    tracker.setOperationCallback(None)
    tracker.stopCapture()


def test_a_topology_says_why_there_is_none():
    topology = cluster.GPUTopology()
    found = topology.discover()
    assert found == (topology.getTopology().gpu_count > 0) and found != bool(topology.lastError())
    assert topology.getLink(0, 4000) is None and topology.getBandwidth(0, 4000) is None
    assert topology._repr_svg_().startswith("<svg")


def test_a_clock_is_compared():
    sync = cluster.TimeSync(method="SystemClock", sync_interval_ms=0)
    sync.setManualOffset(1000)
    assert sync.toSynchronizedTime(5) == 1005 and sync.toLocalTime(1005) == 5 and sync.getCurrentOffset() == 1000


def test_a_master_and_a_node_capture_together(tmp_path, capfd):
    master = cluster.ClusterMaster(listen_port=0, data_dir=str(tmp_path / "master"))
    assert master.start(), master.lastError()
    node = cluster.NodeAggregator(node_id="a", port=0, data_dir=str(tmp_path / "a"), simulated_gpus=2)
    assert node.initialize(), node.lastError()
    assert master.registerNode("127.0.0.1", 1) is False and master.lastError()
    node.finalize()
    config = cluster.NodeAggregatorConfig(
        node_id="a", port=0, master="127.0.0.1:{}".format(master.port()), data_dir=str(tmp_path / "a"), simulated_gpus=2
    )
    node = cluster.NodeAggregator(config)
    assert node.initialize(), node.lastError()
    until(lambda: master.isNodeConnected("a"))
    told = []
    master.subscribeToEvents(lambda name, event: told.append((name, event)))
    assert master.startClusterCapture(), master.lastError()
    until(lambda: told)
    until(lambda: master.getClusterStatistics().total_events > 1000)
    assert master.stopClusterCapture(30), master.lastError()
    master.unsubscribeFromEvents()
    assert told[0][0] == "a" and told[0][1].timestamp > 0
    record = master.collectAllTraces()
    assert record.nodes == ["a"] and record.complete
    assert tracesmith.Trace(record.path).info().nodes == ["a"]
    timeline = master.buildClusterTimeline()
    assert timeline.start_time <= timeline.events[0].timestamp <= timeline.end_time and timeline.events_left_out == 0
    assert isinstance(timeline.nccl_ops[0], cluster.NCCLOperation)
    assert master.getClusterCommMatrix().world_size == 2 and master.exportToPerfetto(str(tmp_path / "x.pftrace"))
    assert list(master.getClusterStatistics().per_node_stats) == ["a"]
    assert node.startCapture(), node.lastError()
    count = node.getEventCount()
    until(lambda: node.getEventCount() > count)
    assert node.stopCapture() and node.serializeEvents()[:3] == b"SBT"
    node.finalize()
    master.stop()


@pytest.mark.usefixtures("needs_query")
def test_recording_of_ones_own_process(tmp_path):
    path = tmp_path / "own.sbt"
    tracesmith.counter("before", 1)  # nobody records yet
    with tracesmith.record(path) as recording:
        with tracesmith.step(7), tracesmith.range("load"):
            tracesmith.counter("loss", 0.5)
        with pytest.raises(tracesmith.Error, match="already being recorded"):
            tracesmith.record(tmp_path / "second.sbt").start()
    tracesmith.counter("after", 1)
    assert recording.result.records > 0 and recording.result.losses == 0
    trace = recording.trace
    assert trace.query("SELECT name, value FROM counters").rows() == [("loss", 0.5)]
    assert trace.query("SELECT step FROM steps").rows() == [(7,)]
    assert ("load",) in trace.query("SELECT name FROM events").rows()
    with pytest.raises(tracesmith.Error, match="exists already"):
        tracesmith.record(path).start()

    @tracesmith.record(path, force=True)
    def train():
        with tracesmith.range("again"):
            return 42

    assert train() == 42
    names = tracesmith.Trace(path).query("SELECT name FROM events WHERE type = 'annotation'").rows()
    assert names == [("again",)]


@pytest.mark.usefixtures("needs_query")
def test_recording_of_simulated_gpus(tmp_path):
    with tracesmith.record(tmp_path / "sim.sbt", platform="sim", sim={"gpus": 2, "steps": 3, "speed": 10}) as recording:
        until(lambda: len(recording.trace.collectives) > 10)
    assert recording.result.simulated and len(recording.trace.collectives) == recording.result.collectives
