"""Operations of torch.distributed that use no GPU (gloo, MPI): as NCCL's, but timed on the host.

The functions of torch.distributed are hooked once a process group of such a backend exists. The all-reduces of
DistributedDataParallel are called in C++; its own timers tell when a backward has computed everything and when all
ranks had sent theirs. That is one operation for each backward, in a group of its own.
"""
import functools
import inspect
import json
import os
import sys
import threading
import time
import weakref

from . import probe
from .probe import Operation, now

HOST_BACKENDS = ("gloo", "mpi", "ucc")

# Function: the operation, and the argument whose size is the message of a rank.
FUNCTIONS = {
    "all_reduce": ("all_reduce", "tensor"),
    "all_reduce_coalesced": ("all_reduce", "tensors"),
    "broadcast": ("broadcast", "tensor"),
    "reduce": ("reduce", "tensor"),
    "all_gather": ("all_gather", "tensor"),
    "all_gather_into_tensor": ("all_gather", "input_tensor"),
    "_all_gather_base": ("all_gather", "input_tensor"),
    "all_gather_coalesced": ("all_gather", "input_tensor_list"),
    "reduce_scatter": ("reduce_scatter", "output"),
    "reduce_scatter_tensor": ("reduce_scatter", "output"),
    "_reduce_scatter_base": ("reduce_scatter", "output"),
    "all_to_all_single": ("all_to_all", "input"),
    "all_to_all": ("all_to_all", "input_tensor_list"),
    "gather": ("gather", "tensor"),
    "scatter": ("scatter", "tensor"),
    "barrier": ("barrier", None),
    "send": ("send", "tensor"),
    "recv": ("recv", "tensor"),
    "isend": ("send", "tensor"),
    "irecv": ("recv", "tensor"),
}
PEER = {"broadcast": "src", "scatter": "src", "recv": "src", "reduce": "dst", "gather": "dst", "send": "dst"}
SHORTEST_WAIT_NS = 20_000  # a shorter wait is not taken out of its phase


class Group:
    """A process group as rows know it."""

    def __init__(self, dist, group):
        c10d = dist.distributed_c10d
        self.backend = str(dist.get_backend(group)).lower()
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)
        name = getattr(group, "group_name", None)
        if not isinstance(name, str):
            name = str(getattr(c10d, "_pg_names", {}).get(group, "?"))
        self.name = name
        self.text = ("%s %s" % (self.backend, name)).encode("utf-8", "replace")
        self.on_host = any(b in self.backend for b in HOST_BACKENDS)
        self.mixed = self.backend not in HOST_BACKENDS  # by device
        self.ranks = {}  # of the group, by global rank
        try:
            self.ranks = dict(c10d._pg_group_ranks.get(group) or {})
        except AttributeError:
            world = getattr(c10d, "_world", None)
            self.ranks = dict(world.pg_group_ranks.get(group) or {}) if world is not None else {}
        self.count = 0  # of collectives
        self.pairs = {}  # (operation, peer): how many

    def place(self, rank):
        """Of a rank of the job; -1: none, or not known."""
        return -1 if rank is None else self.ranks.get(rank, rank if not self.ranks else -1)

    def number(self, op, peer):
        if op in ("send", "recv"):
            if peer < 0:
                return -1
            self.pairs[op, peer] = self.pairs.get((op, peer), -1) + 1
            return self.pairs[op, peer]
        self.count += 1
        return self.count - 1


class Collectives:
    """Of one process."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.torch = hooks.torch
        self.dist = hooks.torch.distributed
        self.groups = {}  # id of a process group: (a weak reference to it, Group)
        self.hooked = False
        self.open = weakref.WeakKeyDictionary()  # work: (Operation, begin)
        self.inside = threading.local()  # of a function that is hooked: newer versions of send() call isend()

    # ---- groups

    def group(self, group):
        c10d = self.dist.distributed_c10d
        if group is None or group is getattr(c10d.GroupMember, "WORLD", None):
            group = c10d._get_default_group()
        known = self.groups.get(id(group))
        if known is None or known[0]() is not group:  # one that is gone leaves its id to another
            known = self.groups[id(group)] = (weakref.ref(group), Group(self.dist, group))
        return known[1]

    def made(self, group, description, job=None):
        """A process group has been made; None: the first, of a job that meets there."""
        if group is not None and group is getattr(self.dist.GroupMember, "NON_GROUP_MEMBER", None):
            return
        own = self.group(group)
        functions = probe.functions() if group is not None else probe.start()
        if group is None:
            self.set_rank(functions, own)
            if functions is not None and job is not None:
                functions.metadata(b"tracesmith: job", job.encode("utf-8", "replace"))
        if functions is not None:
            ranks = json.dumps(sorted(own.ranks)).encode() if own.ranks else None
            functions.process_group(own.text, description.encode("utf-8", "replace"), own.backend.encode(), own.size,
                                    ranks)
        if own.on_host and not self.hooked:
            self.hooked = True
            self.hook_functions()

    def set_rank(self, functions, own):
        local = os.environ.get("LOCAL_RANK", "")
        if functions is not None:
            functions.set_rank(own.rank, own.size, int(local) if local.isdigit() else -1)

    # ---- functions of torch.distributed

    def hook_functions(self):
        c10d = self.dist.distributed_c10d
        replaced = {}
        for name, (op, message) in FUNCTIONS.items():
            original = getattr(c10d, name, None)
            if callable(original):
                replaced[name] = (original, self.around(original, op, message))
        # Also where a module has taken them by `from torch.distributed import all_reduce`.
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", None)
            if not isinstance(names, dict):
                continue
            for name, (original, hooked) in replaced.items():
                if names.get(name) is original:
                    names[name] = hooked
        functional = sys.modules.get("torch.distributed._functional_collectives")
        remaps = getattr(functional, "traceable_collective_remaps", None)
        if isinstance(remaps, dict):  # what torch.compile makes of them
            for original, hooked in replaced.values():
                if original in remaps:
                    remaps[hooked] = remaps[original]
        work = self.dist.distributed_c10d.Work
        wait = work.wait
        safely, ended, open_works = self.hooks.safely, self.ended, self.open

        def hooked_wait(self, *arguments, **named):
            known = open_works.get(self)
            if known is None:
                return wait(self, *arguments, **named)
            begin = now()
            result = wait(self, *arguments, **named)
            open_works.pop(self, None)
            safely("collectives", ended, known[0], known[1], begin)
            return result

        work.wait = hooked_wait

    def around(self, original, op, message):
        places = {name: i for i, name in enumerate(inspect.signature(original).parameters)}
        safely, inside = self.hooks.safely, self.inside

        def given(name, arguments, named):
            if name in named:
                return named[name]
            place = places.get(name, len(arguments))
            return arguments[place] if place < len(arguments) else None

        def begins(arguments, named):
            group = self.group(given("group", arguments, named))
            if not group.on_host or group.rank < 0:
                return None
            tensors = given(message, arguments, named) if message else None
            if message is None and group.mixed:
                return None  # a barrier, of nobody knows which backend
            peer = PEER.get(op)
            if peer is None:
                return self.begins(group, op, tensors, -1)
            place = given("group_" + peer, arguments, named)  # in the group, where torch has that
            if place is None:
                place = group.place(given(peer, arguments, named))
            return self.begins(group, op, tensors, place)

        @functools.wraps(original)
        def hooked(*arguments, **named):
            if getattr(inside, "now", False):
                return original(*arguments, **named)
            known = safely("collectives", begins, arguments, named)
            if known is None:
                return original(*arguments, **named)
            inside.now = True
            try:
                result = original(*arguments, **named)
            finally:
                inside.now = False
            if hasattr(result, "wait") and hasattr(result, "is_completed"):  # it goes on beside the program
                safely("collectives", self.open.__setitem__, result, known)
            else:
                safely("collectives", self.ended, known[0], known[1], known[1])
            return result

        return hooked

    def begins(self, group, op, message, place):
        size, dtype = -1, None
        if message is not None:
            tensors = message if isinstance(message, (list, tuple)) else [message]
            if group.mixed and any(t.device.type != "cpu" for t in tensors):
                return None  # NCCL's
            size = sum(t.numel() * t.element_size() for t in tensors)
            dtype = str(tensors[0].dtype).rsplit(".", 1)[-1].encode() if tensors else None
        operation = Operation(op.encode(), group.text, group.backend.encode(), dtype, group.number(op, place), size,
                              group.rank, group.size, place)
        begin = now()
        functions = probe.functions()
        if functions is None:
            return None
        functions.operation(operation, begin, 0)
        return operation, begin

    def ended(self, operation, begin, waited_since):
        end = now()
        functions = probe.functions()
        if functions is not None:
            functions.operation(operation, begin, end)
        if end - waited_since >= SHORTEST_WAIT_NS:
            self.hooks.training.hole(waited_since, end)

    # ---- DistributedDataParallel

    def wrapped(self, model):
        """A model has been wrapped."""
        group = self.group(model.process_group)
        if not group.on_host:
            return
        model._set_ddp_runtime_logging_sample_rate(1)  # its timers run on the host here
        Reduction(self, model, group)


class Reduction:
    """The all-reduces of one DistributedDataParallel, by its own timers."""

    counts = {}  # by process group: models

    def __init__(self, collectives, model, group):
        self.model = weakref.ref(model)
        number = Reduction.counts[group.text] = Reduction.counts.get(group.text, -1) + 1
        self.text = group.text + (b" DDP" if number == 0 else b" DDP %d" % number)
        self.group = group
        self.sequence = 0
        self.last = 0  # end of the last one
        self.open = None  # (Operation, begin, exception that was being handled)
        self.told = False
        self.guard = collectives.hooks.guard
        self.reductions = collectives.hooks.training.reductions
        self.reductions.append(self)
        functions = probe.functions()
        if functions is not None:
            ranks = json.dumps(sorted(group.ranks)).encode() if group.ranks else None
            name = "gradients of " + type(model.module).__name__
            functions.process_group(self.text, name.encode("utf-8", "replace"), group.backend.encode(), group.size, ranks)

    def begins(self, begin):
        """A backward that reduces the gradients of this model, if it is the only one: it may never end."""
        model = self.model()
        if model is None:
            self.reductions.remove(self)
            return
        self.open = None
        if len(self.reductions) == 1 and model.training and model.require_backward_grad_sync:
            self.open = (self.operation(-1), begin, sys.exc_info()[1])
            functions = probe.functions()
            if functions is not None:
                functions.operation(self.open[0], begin, 0)

    def operation(self, size):
        return Operation(b"all_reduce", self.text, self.group.backend.encode(), None, self.sequence, size, self.group.rank,
                         self.group.size, -1)

    def missing(self, model, begun, step):
        """The backward has ended, and the gradients are not reduced: some parameters have none."""
        functions = probe.functions()
        if functions is not None:
            functions.operation(begun[0], begun[1], begun[1])  # it was none
        without = [name for name, p in model.module.named_parameters() if p.requires_grad and p.grad is None]
        if not without or self.told:
            return
        self.told = True
        self.guard.note("parameters without gradients", (
            "in step %d, backward has ended on rank %d without gradients of %d parameters (%s%s): they are not reduced, and the "
            "other ranks wait. Use all parameters in the loss, or find_unused_parameters=True"
            % (step, self.group.rank, len(without), ", ".join(without[:3]), ", ..." if len(without) > 3 else "")))

    def waits(self, begin, end, step):
        """When a backward waited for the other ranks; tells of the operation, too."""
        model = self.model()
        begun, self.open = self.open, None
        if model is None or (begun is not None and sys.exc_info()[1] is not begun[2]):
            return []  # it failed while others may have waited
        model.logger.set_runtime_stats_and_log()  # else its timers are only read in the next forward
        data = model._get_ddp_logging_data()
        offset = min(now() - time.time_ns() for _ in range(3))  # its clock is that of the day
        sent, computed, ended = (
            data.get(key, 0) + offset
            for key in ("backward_comm_time_start", "backward_compute_time_end", "backward_comm_time_end")
        )
        slack = 1_000_000  # the clock of the day may be set
        if not begin - slack <= sent <= computed <= ended <= end + slack or ended - self.last < slack // 100:
            if begun is not None:
                self.missing(model, begun, step)
            return []  # not of this backward: another model's, or gradients are only accumulated
        self.last = ended
        buckets = str(data.get("rebuilt_bucket_sizes") or data.get("bucket_sizes") or "").split(",")
        one = len(buckets) == 1 and buckets[0].strip().isdigit()
        operation = self.operation(int(buckets[0]) if one else -1)
        self.sequence += 1
        functions = probe.functions()
        if functions is not None:
            # Of several, the last was sent when all was computed.
            functions.operation(operation, sent if one else computed, ended)
        return [(computed, ended)]


def meeting(arguments, named):
    """Where the ranks of a job meet, and which run of it this is: the same on all of them, and on no others. None: not
    known."""
    store = named.get("store")
    method = named.get("init_method") or (arguments[1] if len(arguments) > 1 else None) or "env://"
    if store is not None:
        place, port = getattr(store, "host", None), getattr(store, "port", None)
    elif method.startswith("env://"):
        place, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    else:
        place, port = method.split("?")[0], ""
    if place is None or port is None:
        return None
    run = [os.environ.get(name, "") for name in ("SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")]
    return " ".join(["%s:%s" % (place, port), *run]).strip()


def install(hooks):
    """Of a torch that has just been imported."""
    dist = hooks.torch.distributed
    if not dist.is_available():
        return
    own = hooks.groups = Collectives(hooks)
    c10d = dist.distributed_c10d

    def after(name, tell):
        original = getattr(c10d, name)

        @functools.wraps(original)
        def hooked(*arguments, **named):
            result = original(*arguments, **named)
            hooks.safely("groups", tell, result, arguments, named)
            return result

        for module in (c10d, dist):
            if getattr(module, name, None) is original:
                setattr(module, name, hooked)

    after("init_process_group", lambda _, arguments, named: own.made(None, "default", meeting(arguments, named)))
    after("new_group", lambda group, _, named: own.made(group, str(named.get("group_desc") or "")))
    kind = hooks.torch.nn.parallel.DistributedDataParallel
    original = kind.__init__

    @functools.wraps(original)
    def init(self, *arguments, **named):
        original(self, *arguments, **named)
        hooks.safely("collectives", own.wrapped, self)

    kind.__init__ = init
