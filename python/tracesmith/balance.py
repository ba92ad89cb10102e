"""Gives every rank of a DDP job as many samples as it can train while the others train theirs.

A training script changes two lines: the sampler, and the model.

    sampler = balance.BatchSampler(dataset, total=256)               # instead of DistributedSampler and batch_size
    loader = DataLoader(dataset, batch_sampler=sampler)
    model = balance.weighted(DistributedDataParallel(model), sampler)

All ranks together train the samples that they would train without it, in every step, and the gradient is the mean over
these samples. A coordinator reads what the ranks measured, and makes a plan when one pays: rank 0 if all ranks are on one
node, otherwise the master of the cluster, through the agents of the nodes. Importing this module does not import torch.

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

import atexit
import collections
import logging
import os
import statistics
import time
import uuid
import weakref
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Sized, Tuple

from tracesmith._history import History, device_of, model_name
from tracesmith._local_sgd import LocalSGD
from tracesmith._native import Error
from tracesmith._objects import Object
from tracesmith._pipeline import Pipeline
from tracesmith._prefetch import Depth, Prefetched
from tracesmith._ranks import Clock, Job, Vote
from tracesmith.trace import PathLike, Trace

__all__ = ["BatchSampler", "LocalSGD", "Pipeline", "Prefetched", "weighted", "batches", "layers", "layer_costs", "speeds"]

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


def layer_costs(trace: PathLike, pattern: str) -> List[Dict[str, float]]:
    """What ``layers`` needs to know of the modules of a recorded job, from the steps on which they were sampled: their time, and
    the memory that their forward pass keeps, if that was measured. `pattern` is how ``analyze`` lists them, such as
    ``blocks.*``. The memory of their parameters is not known: add it."""
    with Trace(trace) as opened:
        modules = opened.analyze().modules
    found = [m for m in modules if m.pattern == pattern and m.total_us > 0]
    if not found:
        known = sorted({m.pattern for m in modules if m.total_us > 0 and "*" in m.pattern})
        raise Error("{} has no times of modules {}{}".format(os.fspath(trace), pattern, ": it has " + ", ".join(known) if known else ""))
    found.sort(key=lambda m: [int(part) if part.isdigit() else -1 for part in m.name.split(".")])
    return [{"time_s": m.total_us / 1e6, "memory_bytes": m.kept_bytes or 0.0, "output_bytes": 0.0} for m in found]


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
        self._vote = None  # type: Optional[Vote]
        self._version = 0
        self._step = self._first = 0  # of the job, and the first of this epoch
        self._begun, self._trained = False, 0  # an epoch, and steps in it
        self._fetched = collections.deque()  # type: Deque[Step]
        self.now = None  # type: Optional[Step]
        if self._history_path is None:
            self.open(None)

    def open(self, model: Any) -> None:
        """Makes the page of each node. With a history that waits for the model, whose speeds it has: ``weighted`` calls this."""
        if self._follower is not None:
            return
        if self._history_path is not None:
            devices = self._job.gather(device_of(model))
            if self.rank == 0:
                self._history = History(self._history_path, model_name(model), self.total, devices)
            self._balancer["speeds"] = self._job.share(self._history.speeds() if self._history is not None else None)
        folder, place, wrong = _place(self._path)
        places = self._job.gather(place)
        for error in self._job.gather(wrong):
            if error:
                raise Error(error)
        job = self._job.share(uuid.uuid4().hex[:16])
        nodes = len(set(places))
        self._vote = Vote(self.ranks) if nodes > 1 else None
        made = None  # type: Optional[Tuple[str, str]]
        if places.index(place) == self.rank:  # the first rank of its node
            made = self._create(self._path or os.path.join(folder, "tracesmith-plan-{}-{}".format(os.getpid(), time.time_ns())), job)
        pages = self._job.gather(made)
        for page in pages:
            if page is not None and page[1]:
                raise Error(page[1])
        self._follower = BalanceRank(path=pages[places.index(place)][0], rank=self.rank)
        self._follower.open()
        if self._vote is not None and self.rank == 0:
            log.info("Job %s is on %d nodes: their agents and the master of the cluster balance it.", job, nodes)

    def _create(self, path: str, job: str) -> Tuple[str, str]:
        try:
            coordinator = BalanceCoordinator(path=path, job=job, ahead=self._apart, balancer=self._balancer)
            if self._vote is not None:
                coordinator.createForMaster()
            else:
                coordinator.create()
                self.coordinator = coordinator
        except Error as error:
            return "", str(error)
        self._end = weakref.finalize(self, _remove, path)
        if self._history is not None and self.coordinator is not None:
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
            if self._vote is not None:
                self._vote.level(self._job, self._follower)
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
        if self._vote is not None:
            self._vote.before(self._step, self._follower)
        plan = self._follower.begin(self._step, samples)
        if plan.version != self._version and self.rank == 0 and self._vote is not None and self._step > 0:
            log.info("Plan %d is in force from step %d: %s", plan.version, plan.from_step, plan.reason)
        self._version = plan.version
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

    def parts(self, model: Any, *tensors: Any) -> Iterator[Tuple[Any, ...]]:
        """The batch in as many micro-batches as the plan says. Each comes with its part of the batch, which its mean loss is
        multiplied by: ``for part, x, y in sampler.parts(model, x, y): (loss(model(x), y) * part).backward()``. Gradients
        are exchanged with the last one only."""
        step = self.current
        samples = len(tensors[0])
        count = min(step.micro_batches, samples) if step is not None else 1
        size, larger = divmod(samples, count)
        at = 0
        for i in range(count):
            end = at + size + (i < larger)
            one = ((end - at) / samples,) + tuple(t[at:end] for t in tensors)
            if i + 1 < count and hasattr(model, "no_sync"):
                with model.no_sync():
                    yield one
            else:
                yield one
            at = end

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
            raise Error(self._no_coordinator())
        self.coordinator.undo()

    def _no_coordinator(self) -> str:
        if self._vote is not None:
            return "the master of the cluster coordinates this job: see `tracesmith cluster plans`"
        return "rank 0 coordinates, and this is rank {}".format(self.rank)

    def state(self) -> Any:
        """The plan in force, the speed of each rank, and what became of plans. In rank 0."""
        if self.coordinator is None:
            raise Error(self._no_coordinator())
        return self.coordinator.state()


def weighted(model: Any, sampler: BatchSampler, exchange_as: Any = None) -> Any:
    """The same model: its gradients become the mean over the samples of all ranks, and its steps are measured.

    `exchange_as`, such as ``torch.bfloat16``, is the type in which gradients are exchanged: half the bytes, rounded."""
    if sampler.local_steps > 1:
        raise Error("DistributedDataParallel exchanges gradients in every step: for local_steps use balance.LocalSGD")
    sampler.open(model.module)
    model.register_comm_hook(_Exchange(sampler, model.process_group, exchange_as), _exchange)
    return model


class _Exchange:
    """Measures steps by the exchange of their gradients. What a rank does between the end of one exchange and its own
    last gradients of the next is its work; the rest is waiting for others, and the exchange itself."""

    def __init__(self, sampler: BatchSampler, group: Any, exchange_as: Any) -> None:
        self.sampler, self.group, self.exchange_as = sampler, group, exchange_as
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
    sent = gradients.to(state.exchange_as) if state.exchange_as is not None else gradients

    def ended(future):  # type: ignore[no-untyped-def]  # in a thread of gloo's
        if bucket.is_last():
            state.done = state.clock.now()
        whole = future.value()[0]
        return whole if whole.dtype == gradients.dtype else gradients.copy_(whole)

    _open.add(ended)
    return dist.all_reduce(sent, group=state.group, async_op=True).get_future().then(ended)


_open = weakref.WeakSet()  # type: weakref.WeakSet[Any]  # functions that threads of gloo's have not let go of yet


@atexit.register
def _settle(most_s: float = 2.0) -> None:
    """Waits until those threads need Python no more: one that does while Python ends would end the program with SIGABRT."""
    deadline = time.monotonic() + most_s
    while len(_open) > 0 and time.monotonic() < deadline:
        time.sleep(0.001)


def _place(path: Optional[str]) -> Tuple[str, Any, str]:
    """The folder for the page of this rank's node; something that is the same for ranks that have the same folder: the
    boot of the machine, and the folder on it; and what is wrong."""
    try:
        folder = (os.path.dirname(path) or ".") if path else BalancePlanner().folder()
        assert isinstance(folder, str)
        found = os.stat(folder)
        with open("/proc/sys/kernel/random/boot_id") as boot:
            return folder, (boot.read().strip(), found.st_dev, found.st_ino), ""
    except (Error, OSError) as error:
        return "", None, str(error)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
