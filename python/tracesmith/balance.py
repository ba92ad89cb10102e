"""Gives every rank of a DDP job as many samples as it can train while the others train theirs.

A training script changes two lines: the sampler, and the model.

    sampler = balance.BatchSampler(dataset, total=256)               # instead of DistributedSampler and batch_size
    loader = DataLoader(dataset, batch_sampler=sampler)
    model = balance.weighted(DistributedDataParallel(model), sampler)

All ranks together train the samples that they would train without it, in every step, and the gradient is the mean over
these samples. Rank 0 coordinates: it reads what the ranks measured, and makes a plan when one pays. Ranks must be on one
node; importing this module does not import torch.

>>> from tracesmith import balance
>>> balance.batches(128, [10, 6, 3])
[67, 41, 20]
>>> balance.batches(128, [10, 6, 3], most=[40, 0, 0])
[40, 59, 29]
>>> balance.layers([{"time_s": 1}] * 12, [{"speed": 4}, {"speed": 2}]).layers
[8, 4]
>>> speeds = balance.speeds("job.sbt")
>>> speeds.index(min(speeds))
3
"""

import collections
import logging
import os
import statistics
import tempfile
import time
import weakref
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Sized, Tuple

from tracesmith._history import History, device_of, model_name
from tracesmith._local_sgd import LocalSGD
from tracesmith._native import Error
from tracesmith._objects import Object
from tracesmith._prefetch import Depth, Prefetched
from tracesmith._ranks import Clock, Job
from tracesmith.trace import PathLike, Trace

__all__ = ["BatchSampler", "LocalSGD", "Prefetched", "weighted", "batches", "layers", "speeds"]

log = logging.getLogger(__name__)

SAVE_STEPS = 100  # after so many the history is saved, and at the end


class BalanceCoordinator(Object):
    """Makes plans of what ranks measured. BatchSampler has one in rank 0."""


class BalanceRank(Object):
    """What one rank reads from the page of its job, and writes into it."""


class BalancePlanner(Object):
    def __init__(self) -> None:
        super().__init__()


def batches(total: int, speeds: Sequence[float], most: Sequence[int] = ()) -> List[int]:
    """`total` samples by the speed of each rank; `most` is what the memory of each holds, 0 for any number."""
    given = BalancePlanner().batches(total, list(speeds), list(most))
    assert isinstance(given, list)
    return given


def layers(costs: Sequence[Dict[str, float]], stages: Sequence[Dict[str, float]]) -> Any:
    """Layers for each stage of a pipeline, so that the slowest is as fast as possible. A layer has ``time_s``,
    ``memory_bytes`` and ``output_bytes``, a stage ``speed``, ``memory_bytes`` and ``link_bytes_per_s``."""
    return BalancePlanner().layers(list(costs), list(stages))


def speeds(trace: PathLike, batches: Sequence[int] = ()) -> List[float]:
    """How fast the ranks of a recorded job were, the fastest being 1, for ``BatchSampler(speeds=...)``. Waiting for other
    ranks is not counted. `batches`: samples of each rank in a step, if they were not equal."""
    with Trace(trace) as opened:
        times = collections.defaultdict(list)  # type: Dict[int, List[float]]
        for part in opened.analyze().breakdown:
            times[part.rank].append(part.compute_us + part.data_us + part.idle_us)
    missing = [rank for rank in range(max(times, default=0) + 1) if rank not in times]
    if missing:
        raise Error("{} has no steps of rank {}: its speed is not known".format(os.fspath(trace), missing[0]))
    if batches and len(batches) != len(times):
        raise Error("{} batches for {} ranks".format(len(batches), len(times)))
    found = [(batches[rank] if batches else 1) / statistics.median(times[rank]) for rank in sorted(times)]
    return [speed / max(found) for speed in found]


class Step:
    """One step: what this rank does in it. `priority`: 1 if the other ranks wait when it is late, 0 if it has time to spare or
    is not measured; `prefetch`: batches to fetch ahead."""

    def __init__(self, number: int, plan: Any, rank: int, prefetch: int) -> None:
        own = plan.ranks[rank]
        self.number, self.version = number, plan.version  # type: int, int
        self.batch, self.weight, self.micro_batches = own.batch, own.weight, own.micro_batches
        self.priority, self.prefetch = own.priority, prefetch  # type: int, int
        self.first = sum(other.batch for other in plan.ranks[:rank])  # of this rank's samples in those of the step
        self.samples = sum(other.batch for other in plan.ranks)  # of all ranks


class BatchSampler:
    """Batches of indices for a ``DataLoader``, of the size that the plan says; in each step, the ranks together have
    exactly the next `total` samples.

    `total` is the number of samples of all ranks in a step. `ahead` is how many batches a rank fetches before it trains on
    them: for a DataLoader with workers, ``num_workers * prefetch_factor``. `local_steps` is for ``LocalSGD``. `history` is a
    file with the speeds that devices had in earlier jobs of the same model and total; it is read and written. Everything
    else is a field of the balancer: ``policy``, ``speeds``, ``most_batch``, ``least_gain``, ``dry_run``, … Arguments must
    be the same on all ranks.
    """

    def __init__(
        self,
        data: Sized,
        total: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        ahead: int = 0,
        path: Optional[str] = None,
        local_steps: int = 1,
        history: Optional[PathLike] = None,
        **balancer: Any
    ) -> None:
        if local_steps < 1:
            raise Error("local_steps must be 1 or more")
        if history is not None and (balancer.get("speeds") or balancer.get("policy") == "dynamic"):
            raise Error("the history of earlier jobs gives the speeds to begin with: leave out speeds and policy='dynamic'")
        self.data, self.total = data, total
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        self.local_steps = local_steps
        self._job = Job()
        self.rank, self.ranks = self._job.rank, self._job.ranks
        self._path, self._balancer = path, dict(balancer, ranks=self.ranks, total=total)
        self.ahead = ahead
        self.prefetch = Depth(0)
        # Between two exchanges, ranks may be so many steps apart. A host may be one exchange ahead of its GPU.
        self._apart = ahead + local_steps * (2 if self._job.cuda else 1) - 1
        self._history_path = os.fspath(history) if history is not None else None
        self._history = None  # type: Optional[History]
        self.coordinator = None  # type: Optional[BalanceCoordinator]
        self._follower = None  # type: Optional[BalanceRank]
        self._step = self._first = 0  # of the job, and the first of this epoch
        self._begun, self._trained = False, 0  # an epoch, and steps in it
        self._fetched = collections.deque()  # type: Deque[Step]
        self.now = None  # type: Optional[Step]
        if self._history_path is None:
            self.open(None)

    def open(self, model: Any) -> None:
        """Makes the page. With a history that waits for the model, whose speeds it has: ``weighted`` calls this."""
        if self._follower is not None:
            return
        devices = self._job.gather(device_of(model)) if self._history_path is not None else []
        answer = None  # type: Optional[Tuple[str, str]]
        if self.rank == 0:
            if self._history_path is not None:
                self._history = History(self._history_path, model_name(model), self.total, devices)
                self._balancer["speeds"] = self._history.speeds()
            answer = self._create(self._path or _new_path())
        where, error = self._job.share(answer)
        if error:
            raise Error(error)
        self._follower = BalanceRank(path=where, rank=self.rank)
        self._follower.open()

    def _create(self, path: str) -> Tuple[str, str]:
        try:
            self.coordinator = BalanceCoordinator(path=path, ahead=self._apart, balancer=self._balancer)
            self.coordinator.create()
        except Error as error:
            return "", str(error)
        self._end = weakref.finalize(self, _remove, path)
        if self._history is not None:
            self._saved = weakref.finalize(self, self._history.save, self.coordinator)
        return path, ""

    def __len__(self) -> int:
        whole, rest = divmod(len(self.data), self.total)
        return whole + (not self.drop_last and rest >= self.ranks)

    def set_epoch(self, epoch: int) -> None:
        """Another order for another epoch, the same on all ranks."""
        self.epoch = epoch

    def _order(self) -> Sequence[int]:
        if not self.shuffle:
            return range(len(self.data))
        import torch

        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.data), generator=generator).tolist()
        assert isinstance(order, list)
        return order

    def __iter__(self) -> Iterator[List[int]]:
        order = self._order()
        if self._begun and self._trained < len(self):
            # The epoch before was left early: some ranks had fetched more than others, and all must go on with the same number.
            self._step = max(self._step, self._first + self._trained + 1 + self.ahead)
        self._begun, self._first, self._trained = True, self._step, 0
        self._fetched.clear()
        for i in range(len(self)):
            samples = order[i * self.total : (i + 1) * self.total]
            step = self._begin(len(samples))
            self._fetched.append(step)
            yield list(samples[step.first : step.first + step.batch])

    def _begin(self, samples: int) -> Step:
        self.open(None)
        assert self._follower is not None
        if self.coordinator is not None:
            try:
                for line in self.coordinator.turn():
                    log.info(line)
                if self._history is not None and self._step % SAVE_STEPS == SAVE_STEPS - 1:
                    self._history.save(self.coordinator)
            except Error as error:  # the last plan stays in force
                log.warning("No more plans: %s", error)
                self.coordinator = None
        plan = self._follower.begin(self._step, samples)
        for line in self._follower.notes():
            log.warning("Rank %d: %s", self.rank, line)
        step = Step(self._step, plan, self.rank, self.prefetch.now)
        self._step += 1
        return step

    def trained(self) -> Optional[Step]:
        """The batch that was fetched first and not trained yet: its gradients are about to be exchanged."""
        self.now = self._fetched.popleft() if self._fetched else None
        self._trained += self.now is not None
        return self.now

    @property
    def current(self) -> Optional[Step]:
        """The batch in training, until its gradients are exchanged: for example in how many micro-batches to train it."""
        return self._fetched[0] if self._fetched else None

    def report(self, step: Step, busy_s: float, wall_s: float) -> None:
        """What this rank measured: the time of its own work, and of the whole step; 0: not known."""
        assert self._follower is not None
        self._follower.report(step.number, step.batch, busy_s, wall_s)

    def out_of_memory(self) -> None:
        """The batch in training did not fit. This rank never gets so many samples at once again; train it in parts now."""
        step = self.current or self.now
        if step is not None and self._follower is not None:
            self._follower.out_of_memory(-(-step.batch // step.micro_batches))

    def undo(self) -> None:
        """Back to the plan before. In rank 0."""
        if self.coordinator is None:
            raise Error("rank 0 coordinates, and this is rank {}".format(self.rank))
        self.coordinator.undo()

    def state(self) -> Any:
        """The plan in force, the speed of each rank, and what became of plans. In rank 0."""
        if self.coordinator is None:
            raise Error("rank 0 coordinates, and this is rank {}".format(self.rank))
        return self.coordinator.state()


def weighted(model: Any, sampler: BatchSampler) -> Any:
    """The same model: its gradients become the mean over the samples of all ranks, and its steps are measured."""
    if sampler.local_steps > 1:
        raise Error("DistributedDataParallel exchanges gradients in every step: for local_steps use balance.LocalSGD")
    sampler.open(model.module)
    model.register_comm_hook(_Exchange(sampler, model.process_group), _exchange)
    return model


class _Exchange:
    """Measures steps by the exchange of their gradients. What a rank does between the end of one exchange and its own
    last gradients of the next is its work; the rest is waiting for others, and the exchange itself."""

    def __init__(self, sampler: BatchSampler, group: Any) -> None:
        self.sampler, self.group = sampler, group
        self.step = None  # type: Optional[Step]
        self.ready = self.done = self.done_before = None  # type: Any
        self.clock = Clock()

    def begin(self, cuda: bool) -> None:
        """The first gradients of a step: those before it have been exchanged."""
        self.clock.cuda = cuda
        if self.step is not None and self.done_before is not None:
            busy = self.clock.between(self.done_before, self.ready)
            wall = self.clock.between(self.done_before, self.done)
            if busy > 0 and wall > 0:
                self.sampler.report(self.step, busy, wall)
        self.done_before = self.done
        self.step = self.sampler.trained()

    def weight(self) -> float:
        return self.step.weight if self.step is not None else 1 / self.sampler.ranks


def _exchange(state, bucket):  # type: ignore[no-untyped-def]  # DDP wants these names, and no types of ours
    import torch.distributed as dist

    gradients = bucket.buffer()
    if bucket.index() == 0:
        state.begin(gradients.is_cuda)
    gradients.mul_(state.weight())
    if bucket.is_last():
        state.ready = state.clock.now()

    def ended(future):  # type: ignore[no-untyped-def]
        if bucket.is_last():
            state.done = state.clock.now()
        return future.value()[0]

    return dist.all_reduce(gradients, group=state.group, async_op=True).get_future().then(ended)


def _new_path() -> str:
    folder = os.environ.get("TRACESMITH_DIR") or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, "tracesmith-plan-{}-{}".format(os.getpid(), time.time_ns()))


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
