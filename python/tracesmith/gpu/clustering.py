"""Chooses among GPUs and splits work over them."""

from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from tracesmith import _native
from tracesmith._native import Record, plain
from tracesmith._objects import Struct, struct
from tracesmith.gpu.telemetry_protocol import GPUMetrics

__all__ = [
    "GPUClusteringManager",
    "GPUDevice",
    "DeviceSelector",
    "TelemetryCollector",
    "WorkloadDistributor",
]

T = TypeVar("T")


@struct
class GPUDevice(Struct):
    """A GPU of any vendor: ``device_id``, ``name``, ``vendor`` ("nvidia", "amd", "intel", "apple", "qualcomm"), ``node``,
    ``index``, ``memory_bytes``, ``compute_capability``, ``matrix_tflops`` (measured, by precision), ``precisions``, ….
    What is not known is ``None`` or empty."""


def _fields(given: Any, of: Type[Struct]) -> Dict[str, Any]:
    """The fields of a struct in what was given: the struct, a mapping, or any object with attributes of these names."""
    if isinstance(given, Record):
        return given.to_dict()
    if isinstance(given, Mapping):
        return dict(given)
    names = _native.library().description["structs"][of.__name__]
    return {name: plain(getattr(given, name)) for name in names if hasattr(given, name)}


def _split(tasks: Sequence[T], shares: List[Dict[str, Any]]) -> Dict[str, List[T]]:
    """Gives devices their tasks, in order."""
    out, at = {}, 0
    for share in shares:
        out[share["device_id"]] = list(tasks[at : at + share["count"]])
        at += share["count"]
    return out


class WorkloadDistributor:
    """Splits work over devices. What does not fit within the limits is an error, not left out.

    >>> WorkloadDistributor().distribute_by_capacity(range(8), {"cuda:0": 1.0, "cuda:1": 3.0})
    {'cuda:0': [0, 1], 'cuda:1': [2, 3, 4, 5, 6, 7]}
    """

    def __init__(self) -> None:
        self._native = _native.Handle(_native.library(), "WorkloadDistributor", {})

    def distribute_uniform(
        self, tasks: Sequence[T], devices: Iterable[str], max_per_device: Optional[int] = None
    ) -> Dict[str, List[T]]:
        """Equal shares; the first devices get one more if they do not come out even."""
        return _split(tasks, self._native.call("uniform", len(tasks), list(devices), max_per_device))

    def distribute_by_capacity(
        self, tasks: Sequence[T], capacities: Mapping[str, float], max_per_device: Optional[int] = None
    ) -> Dict[str, List[T]]:
        """Shares in proportion to the capacities. A device of capacity 0 gets nothing."""
        shares = self._native.call(
            "byCapacity", len(tasks), list(capacities), list(capacities.values()), max_per_device
        )
        return _split(tasks, shares)

    def distribute_layers(self, layers: int, memory_bytes: Mapping[str, float], layer_bytes: int = 0) -> Dict[str, int]:
        """How many layers of a model each device gets: in proportion to memory, at least one.

        >>> WorkloadDistributor().distribute_layers(12, {"a": 312, "b": 518, "c": 1024})
        {'a': 2, 'b': 3, 'c': 7}
        """
        shares = self._native.call(
            "layersByMemory", layers, list(memory_bytes), list(memory_bytes.values()), layer_bytes
        )
        return {share["device_id"]: share["count"] for share in shares}


class DeviceSelector:
    """Scores devices: 60 % free memory, as a share of the largest device, and 40 % idleness; less above 80 °C. What a
    device does not report adds nothing to its score."""

    def __init__(self) -> None:
        self._native = _native.Handle(_native.library(), "DeviceSelector", {})

    def score(self, metrics: GPUMetrics, max_memory_bytes: int) -> float:
        return float(self._native.call("score", plain(metrics), max_memory_bytes))

    def supports(self, device: GPUDevice, precision: str) -> Optional[bool]:
        """Whether a device computes in a precision ("bf16"); ``None`` if it is not known."""
        known = self._native.call("supports", _fields(device, GPUDevice), precision)
        return None if known is None else bool(known)

    def rank_devices(self, metrics: Iterable[GPUMetrics]) -> List[Tuple[str, float]]:
        """Devices and their scores, best first; of equal ones the first."""
        reports = list(metrics)
        for report in reports:
            self._native.call("check", plain(report))
        largest = max((report.memory_total_bytes or 0 for report in reports), default=0)
        scores = [(report.device_id, self.score(report, largest)) for report in reports]
        return sorted(scores, key=lambda each: -each[1])


class TelemetryCollector:
    """Keeps the last reports of devices."""

    def __init__(self, max_history: int = 100) -> None:
        self._native = _native.Handle(_native.library(), "GPUClusteringManager", {"max_history": max_history})

    def record(self, metrics: Union[GPUMetrics, Mapping[str, Any]]) -> None:
        """Raises ``ValueError`` if the report is impossible or older than the last one of the device."""
        fields = _fields(metrics, GPUMetrics)
        if self._native.call("getDevice", fields["device_id"]) is None:
            self._native.call("registerDevice", {"device_id": fields["device_id"]})
        self._native.call("recordMetrics", fields)

    def latest(self, device_id: str) -> Optional[GPUMetrics]:
        found = self._native.call("getMetrics", device_id)
        return None if found is None else GPUMetrics(found)

    def history(self, device_id: str) -> List[GPUMetrics]:
        """Oldest first."""
        return [GPUMetrics(each) for each in self._native.call("getHistory", device_id)]

    def aggregate(self) -> Dict[str, Any]:
        """All devices together; ``{}`` if there is none."""
        found = self._native.call("getAggregatedMetrics")  # type: Dict[str, Any]
        return found if found["device_count"] else {}


class GPUClusteringManager(TelemetryCollector):
    """The devices of a cluster: their telemetry, which of them is best for some work, and how to split work over them.

    Reports that arrived more than ``max_age_s`` seconds ago do not count; 0: all do. What cannot be done raises
    ``tracesmith.Error``, which is also a ``KeyError`` if there is no such device and a ``ValueError`` if the request
    makes no sense. It may be used from several threads.
    """

    def __init__(self, max_history: int = 100, max_age_s: float = 30.0) -> None:
        config = {"max_history": max_history, "max_age_s": max_age_s}
        self._native = _native.Handle(_native.library(), "GPUClusteringManager", config)

    def register_device(self, device: Union[GPUDevice, Mapping[str, Any], Any]) -> None:
        """Takes a ``GPUDevice``, a mapping, or any object with attributes of these names. A device that is there already
        is replaced."""
        self._native.call("registerDevice", _fields(device, GPUDevice))

    def unregister_device(self, device_id: str) -> bool:
        return bool(self._native.call("unregisterDevice", device_id))

    def discover_devices(self) -> List[GPUDevice]:
        """Registers the GPUs of this machine, with what ``tracesmith bench`` measured of them and their links."""
        return [GPUDevice(each) for each in self._native.call("discoverDevices")]

    def get_device(self, device_id: str) -> Optional[GPUDevice]:
        found = self._native.call("getDevice", device_id)
        return None if found is None else GPUDevice(found)

    def list_devices(self) -> List[GPUDevice]:
        return [GPUDevice(each) for each in self._native.call("listDevices")]

    def record(self, metrics: Union[GPUMetrics, Mapping[str, Any]]) -> None:
        """Takes a report of a registered device."""
        self._native.call("recordMetrics", _fields(metrics, GPUMetrics))

    async def record_metrics(self, metrics: Union[GPUMetrics, Mapping[str, Any]]) -> None:
        """The same, to be awaited. It takes microseconds and does not let others run in between."""
        self.record(metrics)

    def get_metrics(self, device_id: str) -> Optional[GPUMetrics]:
        return self.latest(device_id)

    def get_history(self, device_id: str) -> List[GPUMetrics]:
        return self.history(device_id)

    def get_aggregated_metrics(self) -> Dict[str, Any]:
        """All devices together; ``{}`` if there is none. A sum or mean is ``None`` if no device reports the value."""
        return self.aggregate()

    def select_best_device(self, min_memory_bytes: int = 0) -> Optional[GPUDevice]:
        """``None`` if no device is suitable; ``select()`` says why."""
        found = self._native.call("selectBestDevice", min_memory_bytes)
        return None if found is None else GPUDevice(found)

    def select(self, **request: Any) -> Record:
        """The best devices, and why others are not suitable: ``count``, ``min_memory_bytes``, ``precision``, ``vendor``,
        ``node``, ``near``, ``max_utilization_percent``, ``max_temperature_celsius``, ``exclude``, ``max_age_s``."""
        return Record(self._native.call("select", request))

    def distribute_workload(
        self,
        tasks: Sequence[T],
        strategy: str = "uniform",
        capacities: Optional[Mapping[str, float]] = None,
        max_per_device: Union[int, Mapping[str, int], None] = None,
        precision: str = "bf16",
    ) -> Dict[str, List[T]]:
        """The tasks of each device. With the strategy "capacity" and no capacities, the measured speed of the devices in
        ``precision`` counts."""
        request = {"tasks": len(tasks), "strategy": strategy, "precision": precision}  # type: Dict[str, Any]
        request["capacities"] = dict(capacities or {})
        request["max_of" if isinstance(max_per_device, Mapping) else "max_per_device"] = plain(max_per_device)
        return _split(tasks, self._native.call("distributeWorkload", request))

    def distribute_layers(self, layers: int, layer_bytes: int = 0) -> Dict[str, int]:
        """How many layers of a model each device gets, by the memory that is free now."""
        shares = self._native.call("distributeLayers", layers, layer_bytes)
        return {share["device_id"]: share["count"] for share in shares}

    def shutdown(self) -> None:
        """Forgets everything; the manager cannot be used any more."""
        self._native.close()
