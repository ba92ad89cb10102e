"""From devices to a plan, as a program does it: register, report, choose, split, aggregate."""

import asyncio
import socket
import threading

from tracesmith.gpu.clustering import GPUClusteringManager, GPUDevice
from tracesmith.gpu.telemetry_protocol import GPUMetrics

VENDORS = ("nvidia", "amd", "intel", "apple", "qualcomm")


def test_the_examples_of_the_manual():
    discovered_devices = [GPUDevice(device_id="cuda:%d" % i, memory_bytes=24_000_000_000) for i in range(2)]
    tasks = list(range(9))

    async def program():
        manager = GPUClusteringManager()
        for device in discovered_devices:
            manager.register_device(device)
        assert len(manager.list_devices()) == 2

        metrics = GPUMetrics(
            device_id="cuda:0",
            timestamp=1707043200.0,
            memory_used_bytes=8_000_000_000,
            memory_total_bytes=24_000_000_000,
            compute_utilization_percent=50.0,
            power_watts=150.0,
            temperature_celsius=65.0,
            clock_rate_mhz=2500,
        )
        await manager.record_metrics(metrics)
        assert manager.select_best_device().device_id == "cuda:0"
        assert manager.select_best_device(min_memory_bytes=8_000_000_000).device_id == "cuda:0"

        distribution = manager.distribute_workload(tasks=tasks, strategy="uniform")
        assert {device: len(own) for device, own in distribution.items()} == {"cuda:0": 5, "cuda:1": 4}
        distribution = manager.distribute_workload(
            tasks=tasks, strategy="capacity", capacities={"cuda:0": 1.0, "cuda:1": 2.0}
        )
        assert {device: len(own) for device, own in distribution.items()} == {"cuda:0": 3, "cuda:1": 6}

        agg = manager.get_aggregated_metrics()
        assert agg["device_count"] == 2
        assert agg["total_memory_bytes"] == 24_000_000_000
        assert agg["average_utilization_percent"] == 50.0

    asyncio.run(program())


def test_many_reports_at_once_of_a_mixed_cluster():
    manager = GPUClusteringManager()
    for i in range(100):
        manager.register_device(GPUDevice(device_id="gpu:%d" % i, vendor=VENDORS[i % 5], memory_bytes=1000))

    async def report(i):
        await manager.record_metrics(
            GPUMetrics(device_id="gpu:%d" % i, memory_used_bytes=i, memory_total_bytes=1000, compute_utilization_percent=10.0)
        )

    async def all_of_them():
        await asyncio.gather(*(report(i) for i in range(100)))

    asyncio.run(all_of_them())
    assert manager.get_aggregated_metrics()["reporting_count"] == 100
    assert [c.device_id for c in manager.select(count=3).devices] == ["gpu:0", "gpu:1", "gpu:2"]
    for i, vendor in enumerate(VENDORS):
        assert manager.select(vendor=vendor).devices[0].device_id == "gpu:%d" % i
    split = manager.distribute_workload(tasks=list(range(1000)))
    assert [len(tasks) for tasks in split.values()] == [10] * 100


def test_threads_may_share_a_manager():
    manager = GPUClusteringManager(max_history=50)
    for i in range(4):
        manager.register_device({"device_id": "gpu:%d" % i})

    def work(i):
        for n in range(50):
            manager.record(GPUMetrics(device_id="gpu:%d" % i, timestamp=float(n), compute_utilization_percent=float(n)))
            manager.select(count=4)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        assert [m.timestamp for m in manager.get_history("gpu:%d" % i)] == [float(n) for n in range(50)]


def test_the_gpus_of_this_machine(monkeypatch):
    monkeypatch.setenv("TRACESMITH_SIM_GPUS", "4")
    manager = GPUClusteringManager()
    devices = manager.discover_devices()
    node = socket.gethostname()
    assert [d.device_id for d in devices] == ["%s:%d" % (node, i) for i in range(4)]
    assert all(d.simulated and d.compute_capability == "9.0" for d in manager.list_devices())
    for device in devices:
        manager.record(GPUMetrics(device_id=device.device_id, memory_used_bytes=0, compute_utilization_percent=0.0))
    chosen = manager.select(near="1", count=4, precision="fp8")
    assert [c.device_id for c in chosen.devices] == ["%s:%d" % (node, i) for i in (0, 2, 3)]
    assert all(c.near_gbps > 100 and c.simulated for c in chosen.devices)
