"""What GPUs can do at most, in TFLOP/s without sparsity: by their data sheets, else as `tracesmith bench` measured it."""
import json
import os
import statistics

# Part of the name that the driver gives it: {precision: TFLOP/s}. The first that fits counts.
_PEAKS = (
    ("GB200", {"bf16": 2500, "fp16": 2500, "fp8": 5000, "tf32": 1250, "fp32": 80, "fp64": 40}),
    ("B200", {"bf16": 2250, "fp16": 2250, "fp8": 4500, "tf32": 1125, "fp32": 75, "fp64": 37}),
    ("H200 NVL", {"bf16": 835.5, "fp16": 835.5, "fp8": 1670.5, "tf32": 417.5, "fp32": 60, "fp64": 60}),
    ("GH200", {"bf16": 989.5, "fp16": 989.5, "fp8": 1979, "tf32": 494.7, "fp32": 67, "fp64": 67}),
    ("H200", {"bf16": 989.5, "fp16": 989.5, "fp8": 1979, "tf32": 494.7, "fp32": 67, "fp64": 67}),
    ("H100 NVL", {"bf16": 835.5, "fp16": 835.5, "fp8": 1670.5, "tf32": 417.5, "fp32": 60, "fp64": 60}),
    ("H100 PCIe", {"bf16": 756.5, "fp16": 756.5, "fp8": 1513, "tf32": 378, "fp32": 51, "fp64": 51}),
    ("H100", {"bf16": 989.5, "fp16": 989.5, "fp8": 1979, "tf32": 494.7, "fp32": 67, "fp64": 67}),
    ("A100", {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5, "fp64": 19.5}),
    ("A10", {"bf16": 125, "fp16": 125, "tf32": 62.5, "fp32": 31.2}),
    ("A30", {"bf16": 165, "fp16": 165, "tf32": 82, "fp32": 10.3, "fp64": 10.3}),
    ("A40", {"bf16": 149.7, "fp16": 149.7, "tf32": 74.8, "fp32": 37.4}),
    ("L40S", {"bf16": 362, "fp16": 362, "fp8": 733, "tf32": 183, "fp32": 91.6}),
    ("L40", {"bf16": 181, "fp16": 181, "fp8": 362, "tf32": 90.5, "fp32": 90.5}),
    ("L4", {"bf16": 121, "fp16": 121, "fp8": 242, "tf32": 60, "fp32": 30.3}),
    ("V100", {"fp16": 125, "fp32": 15.7, "fp64": 7.8}),
    ("T4", {"fp16": 65, "fp32": 8.1}),
    ("MI300X", {"bf16": 1307.4, "fp16": 1307.4, "fp8": 2614.9, "tf32": 653.7, "fp32": 163.4, "fp64": 163.4}),
)


def tflops(device, precision):
    """Of a device by the name the driver gives it; None: not known."""
    words = device.replace("-", " ").split()
    for name, of in _PEAKS:
        parts = name.split()
        if parts[0] in words and all(part in words for part in parts):
            return of.get(precision)
    return None


def peak(device, index, precision):
    """(TFLOP/s, how it is known) of a device by its name and torch's number of it; None: not known."""
    stated = tflops(device, precision)
    if stated is not None:
        return stated, "by data sheet"
    found = measured(index, precision)
    return None if found is None else (found, "as measured by tracesmith bench")


def measured(index, precision):
    """By the node's capability record, which `tracesmith run` has found. Where its GPUs differ it must be known which one
    this is."""
    ending = " " + precision
    of = {}
    for figure in record():
        part = figure.get("part", "")
        if figure.get("name") == "gpu_matrix_tflops" and part.startswith("gpu ") and part.endswith(ending) and figure.get("median", 0) > 0:
            of[part[len("gpu ") : -len(ending)]] = figure["median"]
    if not of:
        return None
    if max(of.values()) <= 1.1 * min(of.values()):
        return statistics.median(of.values())
    if os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":  # as the record has them; torch has the fastest first
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    numbers = None if visible is None else [n.strip() for n in visible.split(",")]
    return of.get(str(index) if numbers is None else numbers[index] if index < len(numbers) else None)


def record():
    """The figures in it."""
    try:
        with open(os.environ["TRACESMITH_CAPABILITY"], encoding="utf-8") as file:
            return json.load(file)["figures"]
    except (KeyError, OSError, ValueError):
        return []
