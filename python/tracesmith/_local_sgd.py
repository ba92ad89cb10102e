"""Local SGD: ranks train some steps by themselves, and then average their parameters."""

from typing import Any, List, Optional, Tuple

from tracesmith._native import Error
from tracesmith._ranks import Clock


class LocalSGD:
    """Trains ``sampler.local_steps`` steps on each rank by itself, and then makes the parameters of all ranks their mean,
    weighted by the samples that each has trained. A rank that is slow for a moment stops the others only at the averaging.

        sampler = balance.BatchSampler(dataset, total=256, local_steps=8)
        local = balance.LocalSGD(model, optimizer, sampler)      # instead of DistributedDataParallel(model)
        for x, y in DataLoader(dataset, batch_sampler=sampler):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            local.step()                                         # instead of optimizer.step()
        local.average()

    This is not synchronous training: with more than one local step the loss is another one. With one, gradients are
    averaged, and the loss is that of DistributedDataParallel.
    """

    def __init__(self, model: Any, optimizer: Any, sampler: Any) -> None:
        if hasattr(model, "register_comm_hook"):
            raise Error("LocalSGD takes the model itself, without DistributedDataParallel")
        sampler.open(model)
        self.model, self.optimizer, self.sampler = model, optimizer, sampler
        self._taken = 0  # steps since the last averaging
        self._own = self._all = 0  # samples in these, of this rank and of all
        parameter = next(model.parameters())
        self._clock = Clock(parameter.is_cuda)
        self._last = None  # type: Any  # when the step before ended
        self._period = []  # type: List[Tuple[Any, Any, Any]]  # step, begin and end of each step
        self._ended = None  # type: Any  # a period that is not reported yet, and when it ended
        _combine(list(model.parameters()) + list(model.buffers()), None)

    def step(self) -> None:
        """The optimizer's step; after the last of the local steps, also the averaging."""
        step = self.sampler.trained()
        if step is None:
            raise Error("this step has no batch of the sampler: give the sampler to the DataLoader as batch_sampler")
        if self.sampler.local_steps == 1:
            self._mark(step)
            _combine([_gradient(p) for p in self.model.parameters() if p.requires_grad], step.weight)
            self._end_period()
            self.optimizer.step()
            return
        self.optimizer.step()
        self._mark(step)
        self._taken += 1
        self._own += step.batch
        self._all += step.samples
        if self._taken == self.sampler.local_steps:
            self.average()

    def average(self) -> None:
        """Makes the parameters equal on all ranks now: after the training, or before a checkpoint. On all ranks."""
        if self._taken == 0:
            return
        floating = [t for t in list(self.model.parameters()) + list(self.model.buffers()) if t.is_floating_point()]
        _combine(floating, self._own / self._all)  # the other buffers count steps, and are the same on all ranks
        self._taken = self._own = self._all = 0
        self._end_period()

    def _mark(self, step: Any) -> None:
        now = self._clock.now()
        self._period.append((step, self._last, now))
        self._last = now

    def _end_period(self) -> None:
        """Reports what the steps of a period took; on a GPU a period later, when that is known without waiting."""
        self._last = self._clock.now()
        ended, self._ended = self._ended, (self._period, self._last)
        self._period = []
        if not self._clock.cuda:
            ended, self._ended = self._ended, None
        if ended is not None:
            self._report(*ended)

    def _report(self, period: List[Tuple[Any, Any, Any]], end: Any) -> None:
        """Only the averaging shows how long the steps of all ranks take: it is reported as part of the last one."""
        wall = self._clock.between(period[0][1], end) / len(period)
        for step, begin, ready in period[:-1]:
            busy = self._clock.between(begin, ready)
            if busy > 0:
                self.sampler.report(step, busy, 0.0)
        step, begin, ready = period[-1]
        busy = self._clock.between(begin, ready)
        if busy > 0:
            self.sampler.report(step, min(busy, wall) if wall > 0 else busy, wall)


def _gradient(parameter: Any) -> Any:
    """Zeros if this rank's batch did not use the parameter: other ranks may have."""
    if parameter.grad is None:
        import torch

        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad.detach()


def _combine(tensors: List[Any], weight: Optional[float]) -> None:
    """Makes them the same on all ranks: their sum by the weights of the ranks, or, without a weight, those of rank 0."""
    import torch
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return
    for dtype, device in dict.fromkeys((t.dtype, t.device) for t in tensors):
        same = [t.detach() for t in tensors if (t.dtype, t.device) == (dtype, device)]
        flat = torch.cat([t.reshape(-1) for t in same])
        if weight is None:
            dist.broadcast(flat, src=0)
        else:
            # Weighted sums of 16-bit numbers would lose what a step changes.
            flat = flat.to(torch.promote_types(dtype, torch.float32)).mul_(weight)
            dist.all_reduce(flat)
        at = 0
        for t in same:
            t.copy_(flat[at : at + t.numel()].view_as(t))
            at += t.numel()
