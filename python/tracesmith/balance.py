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
"""

import collections
import logging
import os
import time
import uuid
import weakref
from typing import Any, Deque, Dict, Iterator, List, Optional, Sequence, Sized, Tuple

from tracesmith._native import Error
from tracesmith._objects import Object

__all__ = ["BatchSampler", "weighted", "batches", "layers"]

log = logging.getLogger(__name__)


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


class Step:
    """One step: what this rank does in it."""

    def __init__(self, number: int, plan: Any, rank: int) -> None:
        own = plan.ranks[rank]
        self.number, self.version = number, plan.version  # type: int, int
        self.batch, self.weight, self.micro_batches = own.batch, own.weight, own.micro_batches
        self.first = sum(other.batch for other in plan.ranks[:rank])  # of this rank's samples in those of the step


class BatchSampler:
    """Batches of indices for a ``DataLoader``, of the size that the plan says; in each step, the ranks together have
    exactly the next `total` samples.

    `total` is the number of samples of all ranks in a step. `ahead` is how many batches a rank fetches before it trains on
    them: for a DataLoader with workers, ``num_workers * prefetch_factor``. Everything else is a field of the balancer:
    ``policy``, ``speeds``, ``most_batch``, ``least_gain``, ``dry_run``, … Arguments must be the same on all ranks.
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
        **balancer: Any
    ) -> None:
        self.data, self.total = data, total
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        self.rank, self.ranks, together = _job()
        self.coordinator = None  # type: Optional[BalanceCoordinator]
        folder, place, wrong = _place(path)
        places = together([place])  # one of each rank
        for error in together([wrong]):
            if error:
                raise Error(error)
        job = together([uuid.uuid4().hex[:16]])[0]
        self._vote = _Vote(self.ranks) if len(set(places)) > 1 else None
        made = None  # type: Optional[Tuple[str, str]]
        if places.index(places[self.rank]) == self.rank:  # the first rank of its node
            where = path or os.path.join(folder, "tracesmith-plan-{}-{}".format(os.getpid(), time.time_ns()))
            config = dict(balancer, ranks=self.ranks, total=total)
            made = self._create(where, job, config, ahead)
        pages = together([made])
        for page in pages:
            if page is not None and page[1]:
                raise Error(page[1])
        self._follower = BalanceRank(path=pages[places.index(places[self.rank])][0], rank=self.rank)
        self._follower.open()
        if self._vote is not None and self.rank == 0:
            log.info("Job %s is on %d nodes: their agents and the master of the cluster balance it.", job, len(set(places)))
        self._step = 0
        self._version = 0
        self._fetched = collections.deque()  # type: Deque[Step]
        self.now = None  # type: Optional[Step]

    def _create(self, path: str, job: str, balancer: Dict[str, Any], ahead: int) -> Tuple[str, str]:
        try:
            coordinator = BalanceCoordinator(path=path, job=job, ahead=ahead, balancer=balancer)
            if self._vote is not None:
                coordinator.createForMaster()
            else:
                coordinator.create()
                self.coordinator = coordinator
        except Error as error:
            return "", str(error)
        self._end = weakref.finalize(self, _remove, path)
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
        self._fetched.clear()
        for i in range(len(self)):
            samples = order[i * self.total : (i + 1) * self.total]
            step = self._begin(len(samples))
            self._fetched.append(step)
            yield list(samples[step.first : step.first + step.batch])

    def _begin(self, samples: int) -> Step:
        if self.coordinator is not None:
            try:
                for line in self.coordinator.turn():
                    log.info(line)
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
        step = Step(self._step, plan, self.rank)
        self._step += 1
        return step

    def trained(self) -> Optional[Step]:
        """The batch that was fetched first and not trained yet: its gradients are about to be exchanged."""
        self.now = self._fetched.popleft() if self._fetched else None
        return self.now

    def report(self, step: Step, busy_s: float, wall_s: float) -> None:
        """What this rank measured: the time of its own work, and of the whole step."""
        self._follower.report(step.number, step.batch, busy_s, wall_s)

    def out_of_memory(self) -> None:
        """The batch in training did not fit. This rank never gets so many samples at once again; train it in parts now."""
        step = self._fetched[0] if self._fetched else self.now
        if step is not None:
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


def weighted(model: Any, sampler: BatchSampler) -> Any:
    """The same model: its gradients become the mean over the samples of all ranks, and its steps are measured."""
    model.register_comm_hook(_Exchange(sampler, model.process_group), _exchange)
    return model


class _Exchange:
    """Measures steps by the exchange of their gradients. What a rank does between the end of one exchange and its own
    last gradients of the next is its work; the rest is waiting for others, and the exchange itself."""

    def __init__(self, sampler: BatchSampler, group: Any) -> None:
        self.sampler, self.group = sampler, group
        self.step = None  # type: Optional[Step]
        self.ready = self.done = self.done_before = None  # type: Any
        self.cuda = False

    def begin(self, cuda: bool) -> None:
        """The first gradients of a step: those before it have been exchanged."""
        self.cuda = cuda
        if self.step is not None and self.done_before is not None:
            busy, wall = self._between(self.done_before, self.ready), self._between(self.done_before, self.done)
            if busy > 0 and wall > 0:
                self.sampler.report(self.step, busy, wall)
        self.done_before = self.done
        self.step = self.sampler.trained()

    def mark(self) -> Any:
        """Now, on the clock of the device."""
        if not self.cuda:
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, begin: Any, end: Any) -> float:
        if begin is None or end is None:
            return 0.0
        if not self.cuda:
            return float(end - begin)
        end.synchronize()  # of the step before: it has ended long ago
        return float(begin.elapsed_time(end)) / 1000

    def weight(self) -> float:
        return self.step.weight if self.step is not None else 1 / self.sampler.ranks


def _exchange(state, bucket):  # type: ignore[no-untyped-def]  # DDP wants these names, and no types of ours
    import torch.distributed as dist

    gradients = bucket.buffer()
    if bucket.index() == 0:
        state.begin(gradients.is_cuda)
    gradients.mul_(state.weight())
    if bucket.is_last():
        state.ready = state.mark()

    def ended(future):  # type: ignore[no-untyped-def]
        if bucket.is_last():
            state.done = state.mark()
        return future.value()[0]

    return dist.all_reduce(gradients, group=state.group, async_op=True).get_future().then(ended)


class _Vote:
    """Ranks on several nodes agree on a plan by the minimum of what each says it has. When they vote, and what the result
    means, is the follower's; here is only the exchange, beside the training and on the CPU."""

    def __init__(self, ranks: int) -> None:
        import torch.distributed as dist

        self.group = dist.new_group(list(range(ranks)), backend="gloo")
        self.least = None  # type: Any
        self.work = None  # type: Any

    def before(self, step: int, follower: BalanceRank) -> None:
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
            self.work = dist.all_reduce(self.least, dist.ReduceOp.MIN, group=self.group, async_op=True)


def _job() -> Tuple[int, int, Any]:
    """Rank, number of ranks, and a function that takes a list with one item and gives the items of all ranks."""
    try:
        import torch.distributed as dist
    except ImportError:
        return 0, 1, lambda own: own
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1, lambda own: own

    def together(own: List[Any]) -> List[Any]:
        all_of_them = [None] * dist.get_world_size()  # type: List[Any]
        dist.all_gather_object(all_of_them, own[0])
        return all_of_them

    return dist.get_rank(), dist.get_world_size(), together


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
