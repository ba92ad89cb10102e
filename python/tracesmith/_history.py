"""How fast devices were in earlier jobs, in a file: a job with a history begins with batches by these speeds."""

import json
import logging
import os
import platform
import statistics
import time
from typing import Any, Dict, List, Optional, Tuple

log = logging.getLogger("tracesmith.balance")

KIND = "speeds of devices, by TraceSmith"
MOST_JOBS, MOST_DEVICES = 64, 4096  # that a file keeps

Device = Dict[str, str]  # name, where (which one of this name it is), share (the part of it that the rank may use)


def model_name(model: Any) -> str:
    """
    >>> model_name(None)
    'unknown model'
    """
    if model is None:
        return "unknown model"
    parameters = list(model.parameters())
    kind = str(parameters[0].dtype).replace("torch.", "") if parameters else "no"
    return "{} with {} {} parameters".format(type(model).__name__, sum(p.numel() for p in parameters), kind)


def device_of(model: Any) -> Device:
    """What this rank trains on: the GPU of the model's parameters, or CPU cores of this machine."""
    device = next((p.device for p in model.parameters()), None) if model is not None else None
    if device is None or device.type != "cuda":
        return {"name": _cpu(), "where": platform.node(), "share": "{} cores".format(len(os.sched_getaffinity(0)))}
    import torch

    about = torch.cuda.get_device_properties(device)
    where = getattr(about, "uuid", None) or "{}, {} of {}".format(
        platform.node(), device.index, os.environ.get("CUDA_VISIBLE_DEVICES", "all"))  # torch before 2.4 has no uuid
    share = os.environ.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100")
    return {"name": str(about.name), "where": str(where), "share": share + " %"}


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


class History:
    """Of one job: the model, the samples in a step, and the device of each rank. In rank 0."""

    def __init__(self, path: str, model: str, total: int, devices: List[Device]) -> None:
        self.path, self.model, self.total, self.devices = path, model, total, devices
        self._refused = False  # the file is something else: it is left alone

    def speeds(self) -> List[float]:
        """Of each rank, relative; nothing if a device is not known. The log says which of the two."""
        found = []  # type: List[float]
        before = self._job(self._read())
        for rank, device in enumerate(self.devices):
            speed = _speed(before["devices"], device, self.devices[:rank].count(device)) if before else None
            if speed is None:
                break
            found.append(speed)
        if self._refused:
            return []
        if before is None:
            log.info("%s has no %s with %d samples in a step: the job begins with equal batches.",
                     self.path, self.model, self.total)
            return []
        if len(found) < len(self.devices):
            device = self.devices[len(found)]
            log.info("%s has no %s (%s), the device of rank %d: the job begins with equal batches.",
                     self.path, device["name"], device["share"], len(found))
            return []
        log.info("The job begins with the speeds of %s, saved %s.", self.path, before["saved"])
        return found

    def save(self, coordinator: Any) -> None:
        """What the coordinator knows now. Speeds of devices that this job does not have stay in the file."""
        ranks = coordinator.state().ranks
        if self._refused or any(rank.samples_per_s <= 0 for rank in ranks):
            return
        try:
            jobs = self._read()
            before = self._job(jobs)
            own = [dict(device, samples_per_s=rank.samples_per_s) for device, rank in zip(self.devices, ranks)]
            others = [known for known in before["devices"] if _key(known) not in map(_key, own)] if before else []
            saved = {
                "model": self.model,
                "total": self.total,
                "saved": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "devices": (own + others)[:MOST_DEVICES],
            }
            jobs = [saved] + [job for job in jobs if job is not before]
            self._write({"kind": KIND, "jobs": jobs[:MOST_JOBS]})
        except OSError as error:
            log.warning("The history is not saved: %s", error)
            self._refused = True

    def _job(self, jobs: List[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
        return next((job for job in jobs if job["model"] == self.model and job["total"] == self.total), None)

    def _read(self) -> List[Dict[str, Any]]:
        if self._refused or not os.path.exists(self.path):
            return []
        try:
            with open(self.path, encoding="utf-8") as file:
                content = json.load(file)
            if content["kind"] != KIND:
                raise ValueError
            for job in content["jobs"]:
                if not {"model", "total", "saved", "devices"} <= set(job):
                    raise ValueError
                if not all(_key(device) and device["samples_per_s"] > 0 for device in job["devices"]):
                    raise ValueError
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("%s is not a history of speeds: it is left as it is. Remove it, or name another file.", self.path)
            self._refused = True
            return []
        jobs = content["jobs"]
        assert isinstance(jobs, list)
        return jobs

    def _write(self, content: Dict[str, Any]) -> None:
        """Whole or not at all: another job may read it now."""
        part = "{}.{}".format(self.path, os.getpid())
        with open(part, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.path)


def _key(device: Dict[str, Any]) -> Tuple[str, str, str]:
    return device["name"], device["where"], device["share"]


def _speed(known: List[Dict[str, Any]], device: Device, number: int) -> Optional[float]:
    """Of the device itself; where several ranks share it, of the rank with the same number among them. A device that is not
    known is as fast as others of its name and share."""
    own = [float(other["samples_per_s"]) for other in known if _key(other) == _key(device)]
    if number < len(own):
        return own[number]
    alike = [float(other["samples_per_s"]) for other in known
             if (other["name"], other["share"]) == (device["name"], device["share"])]
    return statistics.median(alike) if alike else None
