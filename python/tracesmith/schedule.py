"""Who does what on which device: placement of ranks, division of batches and layers, choice of devices.

>>> from tracesmith import schedule
>>> where = schedule.place(tensor=2, data=2, devices=["a:0", "a:1", "b:0", "b:1"],
...                        links=[("a:0", "b:1", 300), ("a:1", "b:0", 300)])
>>> [placed.device_id for placed in where.ranks]
['a:0', 'b:1', 'a:1', 'b:0']
>>> where.cost < where.naive_cost, where.exact
(True, True)
>>> schedule.batches(128, [10, 6, 3])
[67, 41, 20]
"""

from typing import Any, Dict, Iterable, Sequence, Tuple

from tracesmith._objects import Object
from tracesmith.balance import batches, layers
from tracesmith.gpu.clustering import (
    DeviceSelector,
    GPUClusteringManager,
    GPUDevice,
    TelemetryCollector,
    WorkloadDistributor,
)
from tracesmith.gpu.telemetry_protocol import GPUMetrics

__all__ = [
    "place",
    "batches",
    "layers",
    "DeviceSelector",
    "GPUClusteringManager",
    "GPUDevice",
    "GPUMetrics",
    "TelemetryCollector",
    "WorkloadDistributor",
]


class RankPlacer(Object):
    """Puts ranks on devices. See place()."""


def place(
    tensor: int = 1,
    data: int = 1,
    pipeline: int = 1,
    groups: Iterable[Dict[str, Any]] = (),
    devices: Sequence[str] = (),
    links: Iterable[Tuple[str, str, float]] = (),
    **more: float
) -> Any:
    """Which rank belongs on which GPU, so that ranks that exchange much are near each other.

    ``tensor``, ``data`` and ``pipeline`` are the sizes of the job's groups: rank = tensor index + tensor * (data index +
    data * pipeline index). ``groups`` takes their place: dictionaries with ``ranks``, and perhaps ``weight`` and
    ``chain`` (each rank exchanges with the next alone). Without ``devices`` the GPUs of this machine are meant; else they
    are named NODE:INDEX, and ``links`` has the speed of those that are known, in GB/s. ``more`` may have
    ``tensor_weight``, ``data_weight``, ``pipeline_weight``: what a step moves through each rank, in GB or in proportion.

    The result has ``ranks`` (each with ``rank`` and ``device_id``), ``cost``, ``naive_cost`` (rank 0 on the first GPU, and
    so on), ``exact`` and ``assumed_links``, the number of pairs whose speed nobody knows."""
    request = dict(more, tensor=tensor, data=data, pipeline=pipeline, groups=list(groups))  # type: Dict[str, Any]
    known = [{"a": a, "b": b, "gbps": gbps} for a, b, gbps in links]
    return RankPlacer().place(request, list(devices), known)
