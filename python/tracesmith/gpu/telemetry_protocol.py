"""What devices report."""

import time
from typing import Any

from tracesmith._objects import Struct, struct

__all__ = ["GPUMetrics"]


@struct
class GPUMetrics(Struct):
    """What a device did at one moment: ``device_id``, ``timestamp`` (Unix time in seconds; now, if it is not given),
    ``memory_used_bytes``, ``memory_total_bytes``, ``compute_utilization_percent``, ``power_watts``,
    ``temperature_celsius`` and ``clock_rate_mhz``. What was not measured is ``None``, not 0.

    >>> metrics = GPUMetrics(device_id="cuda:0", memory_used_bytes=8_000_000_000, memory_total_bytes=24_000_000_000)
    >>> metrics.memory_used_bytes, metrics.power_watts
    (8000000000, None)
    """

    def __init__(self, *args: Any, **fields: Any) -> None:
        if not args:
            fields.setdefault("timestamp", time.time())
        super().__init__(*args, **fields)
