"""What torch.distributed says about this process, and the clock of its device. Without torch, it is the only rank."""

import atexit
import collections
import ctypes
import time
from typing import Any, Deque, List


class Job:
    """The ranks of this job."""

    def __init__(self) -> None:
        self._dist = None  # type: Any
        self.rank, self.ranks, self.cuda = 0, 1, False
        try:
            import torch
            import torch.distributed as dist
        except ImportError:
            return
        if dist.is_available() and dist.is_initialized():
            self._dist, self.rank, self.ranks = dist, dist.get_rank(), dist.get_world_size()
            self.cuda = torch.cuda.is_available()

    def share(self, value: Any) -> Any:
        """What rank 0 has, on all ranks."""
        if self._dist is None:
            return value
        values = [value]
        self._dist.broadcast_object_list(values, src=0)
        return values[0]

    def gather(self, value: Any) -> List[Any]:
        """What each rank has, on all ranks."""
        if self._dist is None:
            return [value]
        values = [None] * self.ranks  # type: List[Any]
        self._dist.all_gather_object(values, value)
        return values


class Vote:
    """Ranks on several nodes agree on a plan by the minimum of what each says it has. When they vote, and what the result
    means, is the follower's; here is only the exchange, beside the training and on the CPU."""

    def __init__(self, ranks: int) -> None:
        import torch.distributed as dist

        self.group = dist.new_group(list(range(ranks)), backend="gloo")
        self.least = None  # type: Any
        self.work = None  # type: Any
        self.count = 0

    def before(self, step: int, follower: Any) -> None:
        import torch
        import torch.distributed as dist

        if self.work is not None and follower.due(step):
            # A rank that does not get the result cannot know what the others do from this step on: it may not go on.
            self.work.wait()
            self.work = None
            follower.counted(step, self.least.tolist())
        ballot = follower.ballot(step)
        if ballot:
            self.least = torch.tensor(ballot, dtype=torch.int64)
            _ballots.append(self.least)
            self.work = dist.all_reduce(self.least, dist.ReduceOp.MIN, group=self.group, async_op=True)
            self.count += 1

    def level(self, job: Job, follower: Any) -> None:
        """When all ranks have left an epoch early, those that had fetched more may have voted once more. The others make up
        for it with a vote for nothing, and nobody counts it."""
        import torch
        import torch.distributed as dist

        counts = job.gather(self.count)
        if len(set(counts)) == 1:
            return
        if self.count < max(counts):
            self.work = dist.all_reduce(torch.zeros(4, dtype=torch.int64), dist.ReduceOp.MIN, group=self.group, async_op=True)
            self.count += 1
        self.work.wait()
        self.work = None
        follower.counted(0, [])


_ballots = collections.deque(maxlen=8)  # type: Deque[Any]  # the last ones, which gloo may still have


@atexit.register
def _keep() -> None:
    """The last vote may be open when the program ends. The thread of gloo's that freed it then would need Python, which ends
    such a thread, and with it the program."""
    for tensor in _ballots:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))


class Clock:
    """Of the device that trains: a GPU works later than its host tells it to."""

    def __init__(self, cuda: bool = False) -> None:
        self.cuda = cuda

    def now(self) -> Any:
        if not self.cuda:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> float:
        """Seconds; 0 if one of them was not taken. On a GPU, wait for what was told to it before `end`: ask later."""
        if begin is None or end is None:
            return 0.0
        if not self.cuda:
            return float(end - begin)
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000
