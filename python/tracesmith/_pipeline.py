"""A pipeline of layers over the ranks of a job, whose layers move to where a step is shorter."""

import collections
import io
import logging
import statistics
import time
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from tracesmith._native import Error
from tracesmith._ranks import Clock, Job

log = logging.getLogger("tracesmith.balance")

SLOWER = 1.05  # steps that are longer than before by this take a plan back
MOST_DIMENSIONS = 8


class Pipeline:
    """Trains a chain of layers, one stage on each rank, in micro-batches: all forward passes of a step, then all backward passes.

    `layers` is a ``torch.nn.Sequential`` or a list of modules, each from one tensor to one tensor; `optimizer` has the
    parameters of all of them. Both must be the same on all ranks. A rank keeps only its own layers; of the others it has
    the shapes. `loss` is called with the output and the targets of a micro-batch, and gives their mean.

    The times of the layers are measured. Every `every` steps, rank 0 divides the layers anew if that makes the slowest stage
    at least `least_gain` faster, and if what that saves in `horizon_steps` pays for moving them. Layers move with their
    parameters and the state of the optimizer, between two steps, on all ranks at once. What is computed stays the same.

    How fast a rank is shows in layers of one kind (class and shapes of parameters) on several ranks. Where there are none,
    `speeds` says it. `memory_bytes` is the memory of each rank for its layers, 0 for any; `link_bytes_per_s` the speed of
    the connection to the next stage. With `dry_run`, plans are logged and not followed. `division` is how many layers each
    rank begins with.
    """

    def __init__(
        self,
        layers: Iterable[Any],
        optimizer: Any,
        loss: Any,
        micro_batches: int = 4,
        division: Sequence[int] = (),
        every: int = 20,
        speeds: Sequence[float] = (),
        memory_bytes: Sequence[float] = (),
        link_bytes_per_s: Sequence[float] = (),
        least_gain: float = 0.03,
        horizon_steps: int = 1000,
        dry_run: bool = False,
    ) -> None:
        self.layers, self.optimizer, self.loss = list(layers), optimizer, loss
        self.micro_batches, self.every = micro_batches, every
        self.least_gain, self.horizon_steps, self.dry_run = least_gain, horizon_steps, dry_run
        self._job = Job()
        self.rank, self.ranks = self._job.rank, self._job.ranks
        for name, given in (("speeds", speeds), ("memory_bytes", memory_bytes), ("link_bytes_per_s", link_bytes_per_s)):
            if given and len(given) != self.ranks:
                raise Error("{} has {} numbers for {} ranks".format(name, len(given), self.ranks))
        self._given, self._memory, self._links = list(speeds), list(memory_bytes), list(link_bytes_per_s)
        if len(self.layers) < self.ranks:
            raise Error("{} layers cannot be divided among {} ranks: each needs at least one".format(len(self.layers), self.ranks))
        size, larger = divmod(len(self.layers), self.ranks)
        self.division = list(division) or [size + (r < larger) for r in range(self.ranks)]
        if len(self.division) != self.ranks or sum(self.division) != len(self.layers) or min(self.division) < 1:
            raise Error("the division {} is not one of {} layers among {} ranks".format(self.division, len(self.layers), self.ranks))
        self._kinds = [_kind(layer) for layer in self.layers]
        self.number = 0  # of the step
        self._clock = Clock()
        self._measured = []  # type: List[Dict[int, List[Tuple[Any, Any]]]]  # of each step: begins and ends by layer
        self._steps = []  # type: List[float]
        self._outputs = {}  # type: Dict[int, int]  # bytes of a micro-batch, by layer
        self._planner = Planner(self) if self.rank == 0 else None
        for i in range(len(self.layers)):
            if i not in self.own:
                self._let_go(i)

    @property
    def own(self) -> "range":
        """The layers of this rank."""
        first = sum(self.division[: self.rank])
        return range(first, first + self.division[self.rank])

    def parameters(self) -> Iterable[Any]:
        """Those of this rank's layers."""
        return (p for i in self.own for p in self.layers[i].parameters())

    # ---- a step

    def step(self, x: Any, y: Any) -> Any:
        """Trains one batch, the same on all ranks: the first needs `x`, the last needs `y`. The mean loss, on the last rank."""
        self._turn()
        import torch

        begin = time.perf_counter()
        self._clock.cuda = any(p.is_cuda for p in self.parameters())
        times = collections.defaultdict(list)  # type: Dict[int, List[Tuple[Any, Any]]]
        parts = min(self.micro_batches, len(x))
        xs, ys = torch.tensor_split(x, parts), torch.tensor_split(y, parts)
        sent = []  # type: List[Any]
        kept, losses = [], []
        for part in range(parts):
            run, value = self._forward(xs[part], times, sent)
            loss = None
            if self.rank == self.ranks - 1:
                value = value.detach().requires_grad_()
                loss = self.loss(value, ys[part]) * (len(xs[part]) / len(x))
                losses.append(loss.detach())
            kept.append((run, value, loss))
        for run, value, loss in kept:
            self._backward(run, value, loss, times, sent)
        for work, _ in sent:
            work.wait()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._measured.append(times)
        self._steps.append(time.perf_counter() - begin)
        self.number += 1
        return sum(losses) if losses else None

    def _forward(self, x: Any, times: Any, sent: List[Any]) -> Tuple[List[Any], Any]:
        value = x if self.rank == 0 else self._receive(self.rank - 1)
        run = []
        for i in self.own:
            given = value.detach()
            if given.is_floating_point() and i > 0:
                given.requires_grad_()
            begin = self._clock.now()
            value = self.layers[i](given)
            times[i].append((begin, self._clock.now()))
            self._outputs[i] = value.numel() * value.element_size()
            run.append((i, given, value))
        if self.rank < self.ranks - 1:
            self._send(value.detach(), self.rank + 1, sent)
        return run, value

    def _backward(self, run: List[Any], value: Any, loss: Any, times: Any, sent: List[Any]) -> None:
        import torch

        if loss is not None:
            loss.backward()
            gradient = value.grad
        else:
            gradient = self._receive(self.rank + 1)
        for i, given, out in reversed(run):
            begin = self._clock.now()
            if out.requires_grad:
                out.backward(gradient)
            times[i].append((begin, self._clock.now()))
            gradient = given.grad if given.grad is not None else torch.zeros_like(given)
        if self.rank > 0:
            self._send(gradient, self.rank - 1, sent)

    def _send(self, tensor: Any, to: int, sent: List[Any]) -> None:
        import torch
        import torch.distributed as dist

        tensor = tensor.contiguous()
        head = [_types().index(tensor.dtype), tensor.dim()] + list(tensor.shape)
        head += [0] * (2 + MOST_DIMENSIONS - len(head))
        for one in (torch.tensor(head, dtype=torch.int64, device=tensor.device), tensor):
            sent.append((dist.isend(one, to), one))

    def _receive(self, source: int) -> Any:
        import torch
        import torch.distributed as dist

        head = torch.zeros(2 + MOST_DIMENSIONS, dtype=torch.int64, device=self._device())
        dist.recv(head, source)
        kind, dimensions, *shape = head.tolist()
        tensor = torch.empty(shape[:dimensions], dtype=_types()[kind], device=head.device)
        dist.recv(tensor, source)
        return tensor

    def _device(self) -> Any:
        import torch

        return next((p.device for p in self.parameters()), torch.device("cuda" if self._clock.cuda else "cpu"))

    # ---- another division

    def _turn(self) -> None:
        if self.ranks == 1 or self.number == 0 or self.number % self.every:
            return
        mine = {}
        for i in self.own:
            found = [sum(self._clock.between(b, e) for b, e in step[i]) / (len(step[i]) / 2) for step in self._measured if i in step]
            mine[i] = (statistics.median(found), self._bytes(i), self._outputs.get(i, 0))
        told = self._job.gather((mine, statistics.median(self._steps)))
        self._measured, self._steps = [], []
        if self._planner is not None:
            division = self._planner.turn(told)
        else:
            division = None
        division = self._job.share(division)
        if division is not None and division != self.division:
            begin = time.perf_counter()
            self.move(division)
            if self._planner is not None:
                self._planner.moved(time.perf_counter() - begin)

    def _bytes(self, i: int) -> int:
        """What a layer takes: parameters, gradients, state of the optimizer, and its output in each micro-batch."""
        found = self.micro_batches * self._outputs.get(i, 0)
        for p in self.layers[i].parameters():
            tensors = [p, p] + [t for t in self.optimizer.state.get(p, {}).values() if hasattr(t, "element_size")]
            found += sum(t.numel() * t.element_size() for t in tensors)
        return found

    def move(self, division: Sequence[int]) -> None:
        """Goes over to another division. All ranks call it, between the same two steps."""
        before, after = _owners(self.division), _owners(division)
        if len(division) != self.ranks or len(after) != len(self.layers) or min(division) < 1:
            raise Error("the division {} is not one of {} layers among {} ranks".format(list(division), len(self.layers), self.ranks))
        device = self._device()
        for i, (source, to) in enumerate(zip(before, after)):
            if source != to and self.rank == source:
                self._hand_over(i, to, device)
            elif source != to and self.rank == to:
                self._take(i, source, device)
        self.division = list(division)

    def _hand_over(self, i: int, to: int, device: Any) -> None:
        import torch
        import torch.distributed as dist

        groups, states = [], []
        for p in self.layers[i].parameters():
            groups.append(_group_of(self.optimizer, p))
            state = self.optimizer.state.get(p, {})
            # Adam's number of steps may be on the host where parameters are on a GPU.
            states.append({key: (value, getattr(value, "is_cuda", False)) for key, value in state.items()})
        buffer = io.BytesIO()
        torch.save({"module": self.layers[i].state_dict(), "groups": groups, "states": states}, buffer)
        data = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8).to(device)
        dist.send(torch.tensor([len(data)], dtype=torch.int64, device=device), to)
        dist.send(data, to)
        self._let_go(i)

    def _let_go(self, i: int) -> None:
        for p in self.layers[i].parameters():
            group = _group_of(self.optimizer, p)
            if group is not None:
                params = self.optimizer.param_groups[group]["params"]
                params[:] = [q for q in params if q is not p]
            self.optimizer.state.pop(p, None)
            p.grad = None
        self.layers[i].to("meta")

    def _take(self, i: int, source: int, device: Any) -> None:
        import torch
        import torch.distributed as dist

        size = torch.zeros(1, dtype=torch.int64, device=device)
        dist.recv(size, source)
        data = torch.empty(int(size), dtype=torch.uint8, device=device)
        dist.recv(data, source)
        got = torch.load(io.BytesIO(data.cpu().numpy().tobytes()), map_location="cpu")
        layer = self.layers[i].to_empty(device=device)
        layer.load_state_dict(got["module"])
        for p, group, state in zip(layer.parameters(), got["groups"], got["states"]):
            if group is not None:
                self.optimizer.param_groups[group]["params"].append(p)
            if state:
                self.optimizer.state[p] = {key: value.to(device) if on_gpu else value for key, (value, on_gpu) in state.items()}

    def state(self) -> Dict[str, Any]:
        """The division, and in rank 0 the speed of each rank and what became of plans."""
        found = {"division": list(self.division), "step": self.number}  # type: Dict[str, Any]
        if self._planner is not None:
            found.update(speeds=self._planner.speeds, plans=list(self._planner.plans))
        return found


class Planner:
    """Of rank 0: when the layers are divided anew, and when a division is taken back."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.speeds = None  # type: Optional[List[float]]
        self.plans = []  # type: List[Dict[str, Any]]
        self.change_s = 0.0  # what a move takes, as far as is known
        self._seen = {}  # type: Dict[Tuple[int, int], float]  # time by layer and rank, the last ones
        self._tried = None  # type: Optional[Tuple[List[int], float]]  # the division before, and its step
        self._rest, self._pause = 0, 1  # turns without a plan, after one that was taken back
        self._said = ""

    def moved(self, seconds: float) -> None:
        self.change_s = seconds

    def turn(self, told: List[Any]) -> Optional[List[int]]:
        """The division from now on; None: as it is."""
        p = self.pipeline
        fresh = {(i, rank): times[0] for rank, (mine, _) in enumerate(told) for i, times in mine.items()}
        self._seen.update(fresh)
        step = max(seconds for _, seconds in told)
        if self._tried is not None:
            before, old = self._tried
            self._tried = None
            self.plans[-1]["gain"] = 1 - step / old
            if step > SLOWER * old:
                self._rest, self._pause = self._pause, 2 * self._pause
                self._say("Steps of {:.3g} s became {:.0f} % longer: back to {} layers.".format(old, 100 * (step / old - 1), _list(before)))
                return before
            self._say("Steps are {:.0f} % shorter; predicted were {:.0f} %.".format(100 * (1 - step / old), 100 * self.plans[-1]["predicted"]))
        self.speeds = relative_speeds(fresh, p._kinds, p.ranks) or relative_speeds(self._seen, p._kinds, p.ranks) or p._given or None
        if self._rest > 0:
            self._rest -= 1
            return None
        if self.speeds is None:
            self._say("No plan: ranks have no layers of one kind, so nobody knows which of them is faster; give speeds.")
            return None
        return self._propose(fresh, told, step)

    def _propose(self, fresh: Dict[Tuple[int, int], float], told: List[Any], step: float) -> Optional[List[int]]:
        from tracesmith import balance

        p, speeds = self.pipeline, self.speeds
        assert speeds is not None
        sizes = {i: times[1:] for mine, _ in told for i, times in mine.items()}
        costs = [{"time_s": fresh[i, r] * speeds[r], "memory_bytes": float(sizes[i][0]), "output_bytes": float(sizes[i][1])}
                 for i, r in enumerate(_owners(p.division))]
        stages = [{"speed": speeds[r], "memory_bytes": p._memory[r] if p._memory else 0.0,
                   "link_bytes_per_s": p._links[r] if p._links else 0.0} for r in range(p.ranks)]
        try:
            found = balance.layers(costs, stages)
        except Error as error:
            self._say("No plan: {}".format(error))
            return None
        now, at = 0.0, 0
        for r, count in enumerate(p.division):
            own = sum(cost["time_s"] for cost in costs[at : at + count]) / speeds[r]
            at += count
            sends = r + 1 < p.ranks and stages[r]["link_bytes_per_s"] > 0
            now = max(now, own + (costs[at - 1]["output_bytes"] / stages[r]["link_bytes_per_s"] if sends else 0))
        gain = 1 - found.slowest_s / now if now > 0 else 0.0
        if found.layers == p.division or gain < p.least_gain or gain * step * p.horizon_steps <= self.change_s:
            return None
        self.plans.append({"step": p.number, "division": found.layers, "predicted": gain, "gain": None})
        self._say("{} layers instead of {} from step {}: the slowest stage takes {:.3g} s for a micro-batch instead of {:.3g} s ({:.0f} % less).{}".format(
            _list(found.layers), _list(p.division), p.number, found.slowest_s, now, 100 * gain, " Not followed: dry run." if p.dry_run else ""))
        if p.dry_run:
            return None
        self._tried = (list(p.division), step)
        return list(found.layers)

    def _say(self, text: str) -> None:
        if text != self._said:
            log.info(text)
        self._said = text


def relative_speeds(times: Dict[Tuple[int, int], float], kinds: Sequence[Any], ranks: int) -> Optional[List[float]]:
    """How fast the ranks are, the fastest being 1, by the times of layers of one kind. None: some cannot be compared.

    >>> relative_speeds({(0, 0): 0.1, (1, 0): 0.1, (2, 1): 0.2}, ["linear"] * 3, 2)
    [1.0, 0.5]
    >>> relative_speeds({(0, 0): 0.1, (1, 1): 0.2}, ["linear", "attention"], 2) is None
    True
    """
    values = [(kinds[layer], rank, seconds) for (layer, rank), seconds in times.items() if seconds > 0]
    known = {0}
    while True:
        of_known = {kind for kind, rank, _ in values if rank in known}
        more = {rank for kind, rank, _ in values if kind in of_known} - known
        if not more:
            break
        known |= more
    if len(known) < ranks or not all(any(rank == r for _, rank, _ in values) for r in range(ranks)):
        return None
    speeds = [1.0] * ranks
    for _ in range(50):
        costs = {kind: statistics.median(s * speeds[r] for k, r, s in values if k == kind) for kind in {k for k, _, _ in values}}
        speeds = [statistics.median(costs[k] / s for k, r, s in values if r == rank) for rank in range(ranks)]
    return [speed / max(speeds) for speed in speeds]


def _kind(layer: Any) -> Any:
    """Layers of one kind take one device the same time."""
    shapes = tuple(tuple(p.shape) for p in layer.parameters())
    return type(layer).__name__, shapes


def _owners(division: Sequence[int]) -> List[int]:
    return [rank for rank, count in enumerate(division) for _ in range(count)]


def _group_of(optimizer: Any, parameter: Any) -> Optional[int]:
    for i, group in enumerate(optimizer.param_groups):
        if any(p is parameter for p in group["params"]):
            return i
    return None


def _list(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


def _types() -> List[Any]:
    import torch

    return [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool]
