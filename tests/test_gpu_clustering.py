"""Devices, their telemetry, the choice among them and the split of work, one by one."""

import asyncio

import pytest

import tracesmith
from tracesmith.gpu.clustering import DeviceSelector, GPUClusteringManager, GPUDevice, TelemetryCollector, WorkloadDistributor
from tracesmith.gpu.telemetry_protocol import GPUMetrics

GB = 1_000_000_000


def report(device_id="cuda:0", used=8 * GB, busy=50.0, celsius=65.0, **more):
    return GPUMetrics(
        device_id=device_id,
        memory_used_bytes=used,
        memory_total_bytes=24 * GB,
        compute_utilization_percent=busy,
        temperature_celsius=celsius,
        **more
    )


@pytest.fixture
def manager():
    manager = GPUClusteringManager()
    for i in range(3):
        manager.register_device(GPUDevice(device_id="cuda:%d" % i, name="GPU", vendor="nvidia", memory_bytes=24 * GB))
    return manager


@pytest.mark.parametrize(
    "used, busy, celsius, score", [(8, 50, 65, 0.6), (20, 80, 75, 0.18), (22, 80, 85, 0.11375), (0, 0, 100, 0.5), (0, 0, 130, 0.1)]
)
def test_scores(used, busy, celsius, score):
    assert DeviceSelector().score(report(used=used * GB, busy=busy, celsius=celsius), 24 * GB) == pytest.approx(score)


def test_the_least_and_the_most_score_are_numbers_too():
    assert DeviceSelector().score(report(used=24 * GB, busy=100.0), 24 * GB) == 0.0
    assert DeviceSelector().score(report(used=0, busy=0.0), 24 * GB) == 1.0


def test_ranks_devices_best_first():
    reports = [report("cuda:0", used=20 * GB, busy=80), report("cuda:1"), report("cuda:2")]
    ranked = DeviceSelector().rank_devices(reports)
    assert [device for device, _ in ranked] == ["cuda:1", "cuda:2", "cuda:0"]
    assert ranked[0][1] == pytest.approx(0.6)


def test_devices_are_listed_in_their_order(manager):
    assert [d.device_id for d in manager.list_devices()] == ["cuda:0", "cuda:1", "cuda:2"]
    assert manager.get_device("cuda:1").vendor == "nvidia"
    assert manager.get_device("cuda:9") is None
    assert manager.unregister_device("cuda:1") and not manager.unregister_device("cuda:1")
    assert [d.device_id for d in manager.list_devices()] == ["cuda:0", "cuda:2"]


def test_any_object_with_these_attributes_is_a_device():
    class Device:
        device_id = "rocm:0"
        vendor = "amd"
        memory_bytes = 64 * GB
        colour = "red"

    manager = GPUClusteringManager()
    manager.register_device(Device())
    manager.register_device({"device_id": "xe:0", "vendor": "intel"})
    assert [(d.device_id, d.vendor, d.memory_bytes) for d in manager.list_devices()] == [
        ("rocm:0", "amd", 64 * GB),
        ("xe:0", "intel", None),
    ]


def test_metrics_have_eight_fields_and_come_back_as_they_were_given(manager):
    given = report(timestamp=1707043200.0, power_watts=150.0, clock_rate_mhz=2500)
    assert given.keys() == [
        "device_id",
        "timestamp",
        "memory_used_bytes",
        "memory_total_bytes",
        "compute_utilization_percent",
        "power_watts",
        "temperature_celsius",
        "clock_rate_mhz",
    ]
    asyncio.run(manager.record_metrics(given))
    assert manager.get_metrics("cuda:0") == given
    assert manager.get_metrics("cuda:1") is None


def test_what_was_not_measured_is_none(manager):
    manager.record(report(used=None))
    assert manager.get_metrics("cuda:0").memory_used_bytes is None
    assert manager.get_aggregated_metrics()["used_memory_bytes"] is None
    assert manager.select_best_device(min_memory_bytes=1) is None


@pytest.mark.parametrize("bad", [{"busy": 101.0}, {"busy": -1.0}, {"used": 25 * GB}, {"celsius": -300.0}, {"used": -1}])
def test_impossible_metrics_are_value_errors(manager, bad):
    with pytest.raises(ValueError):
        manager.record(report(**bad))
    assert manager.get_metrics("cuda:0") is None


def test_an_unknown_device_is_a_key_error(manager):
    with pytest.raises(KeyError) as told:
        manager.record(report("cuda:9"))
    assert isinstance(told.value, tracesmith.Error)
    assert str(told.value) == "there is no device 'cuda:9': register it"


def test_history_is_limited():
    collector = TelemetryCollector(max_history=5)
    for i in range(8):
        collector.record(report(timestamp=1000.0 + i))
    assert [m.timestamp for m in collector.history("cuda:0")] == [1003.0, 1004.0, 1005.0, 1006.0, 1007.0]
    assert collector.latest("cuda:0").timestamp == 1007.0
    with pytest.raises(ValueError, match="before that of the last report"):
        collector.record(report(timestamp=1.0))


def test_aggregates(manager):
    assert GPUClusteringManager().get_aggregated_metrics() == {}
    for i, busy in enumerate((30.0, 40.0, 50.0)):
        manager.record(report("cuda:%d" % i, busy=busy, power_watts=100.0, timestamp=1707043200.0))
    assert manager.get_aggregated_metrics() == {
        "device_count": 3,
        "reporting_count": 3,
        "stale_count": 0,
        "total_memory_bytes": 72 * GB,
        "used_memory_bytes": 24 * GB,
        "available_memory_bytes": 48 * GB,
        "average_utilization_percent": 40.0,
        "average_temperature_celsius": 65.0,
        "total_power_watts": 300.0,
        "timestamp": "2024-02-04T10:40:00.000Z",
    }


def test_selects_the_best_device(manager):
    manager.record(report("cuda:0", used=20 * GB, busy=80.0, celsius=75.0))
    manager.record(report("cuda:1"))
    assert manager.select_best_device().device_id == "cuda:1"
    assert manager.select_best_device(min_memory_bytes=10 * GB).device_id == "cuda:1"
    assert manager.select_best_device(min_memory_bytes=20 * GB) is None


def test_says_why_a_device_is_not_suitable(manager):
    manager.record(report("cuda:0", used=22 * GB))
    manager.record(report("cuda:1"))
    chosen = manager.select(min_memory_bytes=5 * GB, count=3)
    assert [c.device_id for c in chosen.devices] == ["cuda:1"]
    assert {r.device_id: r.reason for r in chosen.rejected} == {
        "cuda:0": "it has too little free memory",
        "cuda:2": "it has no telemetry",
    }
    with pytest.raises(ValueError, match="no field 'min_memory'"):
        manager.select(min_memory=5)
    with pytest.raises(ValueError, match="unknown precision 'fp3'"):
        manager.select(precision="fp3")


def test_precisions_of_several_vendors():
    selector = DeviceSelector()
    ampere = GPUDevice(device_id="a", vendor="nvidia", compute_capability="8.0")
    assert selector.supports(ampere, "bf16") is True
    assert selector.supports(ampere, "fp8") is False
    assert selector.supports(GPUDevice(device_id="b", vendor="qualcomm"), "fp16") is None
    assert selector.supports(GPUDevice(device_id="c", vendor="amd", matrix_tflops={"fp16": 300.0}), "fp16") is True


def test_uniform_distribution(manager):
    split = manager.distribute_workload(tasks=list(range(10)), strategy="uniform")
    assert split == {"cuda:0": [0, 1, 2, 3], "cuda:1": [4, 5, 6], "cuda:2": [7, 8, 9]}


def test_distribution_by_capacity(manager):
    split = manager.distribute_workload(
        tasks=list(range(16)), strategy="capacity", capacities={"cuda:0": 1.0, "cuda:1": 2.0, "cuda:2": 1.0}
    )
    assert [len(tasks) for tasks in split.values()] == [4, 8, 4]
    assert sorted(task for tasks in split.values() for task in tasks) == list(range(16))


def test_bad_distributions_are_errors(manager):
    tasks = list(range(15))
    with pytest.raises(ValueError, match="unknown strategy 'magic'"):
        manager.distribute_workload(tasks=tasks, strategy="magic")
    with pytest.raises(ValueError, match="no device has a capacity"):
        manager.distribute_workload(tasks=tasks, strategy="capacity", capacities={"cuda:%d" % i: 0.0 for i in range(3)})
    with pytest.raises(KeyError):
        manager.distribute_workload(tasks=tasks, strategy="capacity", capacities={"cuda:%d" % i: 1.0 for i in range(4)})
    with pytest.raises(tracesmith.Error, match="15 tasks do not fit: the limits leave room for 12"):
        manager.distribute_workload(tasks=tasks, max_per_device=4)


def test_limits_of_devices(manager):
    split = manager.distribute_workload(tasks=list(range(9)), max_per_device={"cuda:0": 1})
    assert [len(tasks) for tasks in split.values()] == [1, 4, 4]
    assert WorkloadDistributor().distribute_uniform("abcd", ["x", "y"], max_per_device=2) == {"x": ["a", "b"], "y": ["c", "d"]}


def test_layers_by_memory(manager):
    assert WorkloadDistributor().distribute_layers(20, {"a": 0.975, "b": 0.0125, "c": 0.0125}) == {"a": 18, "b": 1, "c": 1}
    with pytest.raises(ValueError, match="2 layers cannot be split over 3 devices"):
        WorkloadDistributor().distribute_layers(2, {"a": 1, "b": 1, "c": 1})
    for i in range(3):
        manager.record(report("cuda:%d" % i, used=(0 if i else 12) * GB))
    assert manager.distribute_layers(10) == {"cuda:0": 2, "cuda:1": 4, "cuda:2": 4}


def test_a_manager_that_was_shut_down_says_so(manager):
    manager.shutdown()
    with pytest.raises(tracesmith.Error, match="closed"):
        manager.list_devices()
