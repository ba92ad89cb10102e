"""Profiling of this machine's GPUs and of clusters: the classes of the C++ API.

Methods have the names of the C++ API, and the same in snake_case. What a method gives has its fields as attributes.

>>> from tracesmith.cluster import MultiGPUConfig, MultiGPUProfiler
>>> config = MultiGPUConfig(platform="sim")    # simulated GPUs; "cuda" is the default
>>> config.profiler.sim.gpus = 2
>>> profiler = MultiGPUProfiler(config)
>>> profiler.initialize(), profiler.getActiveGPUs()
(True, [0, 1])
"""

import os
from typing import Any, Callable, Optional

from tracesmith._objects import Object, Struct, struct

__all__ = [
    "MultiGPUProfiler",
    "MultiGPUConfig",
    "GPUTopology",
    "NodeAggregator",
    "NodeAggregatorConfig",
    "ClusterMaster",
    "ClusterMasterConfig",
    "NCCLTracker",
    "NCCLOperation",
    "TimeSync",
    "NCCLTrackerConfig",
    "TimeSyncConfig",
]

_CLUSTER = "libtracesmith_c_cluster.so"  # with gRPC, loaded when one of its classes is used


@struct
class MultiGPUConfig(Struct):
    """What a MultiGPUProfiler records: ``gpu_ids``, ``platform`` ("cuda" or "sim"), ``profiler.mode``, …"""


class MultiGPUProfiler(Object):
    """Records all GPUs that this process uses.

    >>> profiler = MultiGPUProfiler(platform="sim", profiler={"sim": {"gpus": 2, "steps": 2, "speed": 50}})
    >>> profiler.initialize() and profiler.startCapture()
    True
    >>> while profiler.totalEventsCaptured() == 0:
    ...     events = profiler.getEvents()
    >>> events[0].metadata["simulated"]
    'true'
    """


class GPUTopology(Object):
    """How this machine's GPUs are connected. ``discover()`` is ``False`` where there is none.

    >>> topology = GPUTopology()
    >>> topology.discover() or topology.lastError() != ""
    True
    """

    def __init__(self) -> None:
        super().__init__()

    def _repr_svg_(self) -> str:
        svg = self.toSVG()
        assert isinstance(svg, str)
        return svg


@struct
class NCCLTrackerConfig(Struct):
    """What an NCCLTracker keeps: ``comm_filter``, ``capture_call_stack``, ``max_operations``, …"""


@struct
class NCCLOperation(Struct):
    """One NCCL operation of this process: ``op_type`` ("AllReduce"), ``data_size``, ``start_time``, ``busbw_gbps``, …

    >>> NCCLOperation(op_type="Broadcast", data_size=4096).op_type
    'Broadcast'
    """


class NCCLTracker(Object):
    """NCCL operations of this process: what was called, and when it ran on the GPU."""

    def setOperationCallback(self, callback: Optional[Callable[[NCCLOperation], None]]) -> None:
        """Calls it for each operation that ended, in a thread of the tracker's. None: no more."""
        self._listen(callback, "NCCLOperation")

    set_operation_callback = setOperationCallback


@struct
class TimeSyncConfig(Struct):
    """With what a TimeSync compares the clock: ``method`` ("SystemClock", "NTP", "PTP", "CUDA", "Custom"), …"""

    _library = _CLUSTER


class TimeSync(Object):
    """This machine's clock against another.

    >>> TimeSync(method="SystemClock", sync_interval_ms=0).getCurrentOffset()
    0
    """

    _library = _CLUSTER


@struct
class NodeAggregatorConfig(Struct):
    """An agent: ``node_id``, ``master``, ``port``, ``data_dir``, ``token_file``, …"""

    _library = _CLUSTER


class NodeAggregator(Object):
    """A node of a cluster inside this program: what ``tracesmith cluster agent`` runs."""

    _library = _CLUSTER

    def serializeEvents(self, compress: bool = True) -> bytes:
        """What the last capture recorded, as the bytes of a trace file. Its blocks are compressed whatever ``compress``
        says. Empty if it failed: ``lastError()`` says why."""
        path = self.exportTrace().path
        if not path:
            return b""
        with open(path, "rb") as file:
            data = file.read()
        os.remove(path)
        return data

    serialize_events = serializeEvents


@struct
class ClusterMasterConfig(Struct):
    """A master: ``listen``, ``listen_port``, ``data_dir``, ``token_file``, ``node_timeout_ms``, …"""

    _library = _CLUSTER


class ClusterMaster(Object):
    """The master of a cluster inside this program: what ``tracesmith cluster master`` runs."""

    _library = _CLUSTER

    def subscribeToEvents(self, callback: Callable[[str, Any], None]) -> None:
        """Calls it with the name of the node and the event for each event that agents send from now on, in a thread of
        its own. A callback that is too slow loses events, which ``eventsLost()`` counts."""
        self._listen(lambda told: callback(told.node_id, told.event), "LiveEventOf")

    def unsubscribeFromEvents(self) -> None:
        self._listen(None, "LiveEventOf")

    subscribe_to_events, unsubscribe_from_events = subscribeToEvents, unsubscribeFromEvents
