"""Ranges of the model's modules, on a few steps that are the same on all ranks.

"module: blocks.7.attn (Attention)" is its forward pass and "module backward: …" its backward pass, each on the thread
that launches. Hooks are put on the modules when such a step begins and taken off when it ends: the others cost nothing.

Backward passes begin when the gradient of what a module returned is there, and end when that of what it was given is:
both are told by hooks on nodes of the autograd graph, which neither add nodes nor touch gradients. What torch.compile or
torch.jit has compiled is one module; nothing inside of it is hooked.
"""
import threading
import weakref

from . import probe
from .probe import now

FIRST = (4, 10, 40)  # steps; then each EVERY-th from LATER on: not those that the guard compares
LATER, EVERY = 100, 64
MOST = 4000  # modules
WALK = 64  # nodes looked at for the end of a backward pass that has no gradient to hand on
BRANCH = 8  # nodes of a module that is looked at for where it hands gradients on: one layer, or two


def sampled(step):
    """Whether modules are recorded on this step."""
    return step in FIRST or (step >= LATER and (step - LATER) % EVERY == 0)


def install(hooks):
    """Of a torch that has just been imported."""
    modules = hooks.model = Modules(hooks)
    modules.watch(hooks.torch.nn.Module)
    hooks.after_steps("modules", modules.step_ended)
    hooks.training.on_evaluation.append(lambda: hooks.safely("modules", modules.remove))


class Modules:
    """Of one process."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.torch = hooks.torch
        self.alive = {}  # id: weak reference, of every module, in the order they were made
        self.handles = []  # of the hooks of this step
        self.open = threading.local()  # modules whose forward pass runs
        self.hook_ns = 0  # of this step
        self.followed = False  # in this step: who runs is known, but there are no ranges
        self.measure = None  # then: told when a forward pass begins and ends
        self.backwards = []  # modules whose backward pass runs
        self.moved = None  # while a CUDA graph is captured: to be called when another module runs
        self.off = self.beyond = False  # the budget; in the last sampled step, and for good
        parts = str(self.torch.__version__).split(".")
        self.new = int(parts[0]) >= 2  # hooks get keyword arguments, and nodes have hooks in front

    def watch(self, kind):
        """Nobody tells which module is the model: all are known from when they are made."""
        original, alive = kind.__init__, self.alive

        def made(self, *arguments, **named):
            key = id(self)
            alive[key] = weakref.ref(self, lambda _: alive.pop(key, None))
            original(self, *arguments, **named)

        made.__doc__, made.__wrapped__, made.__name__, made.__qualname__ = original.__doc__, original, "__init__", original.__qualname__
        kind.__init__ = made

    # ---- which modules

    def roots(self):
        """Modules that are in no other: those that are trained, or where none is, those with parameters."""
        modules = [m for m in (ref() for ref in list(self.alive.values())) if m is not None and "_modules" in m.__dict__]
        inside = {id(child) for m in modules for child in m.__dict__["_modules"].values()}
        outer = [m for m in modules if id(m) not in inside]
        return [m for m in outer if self.trained(m)] or [m for m in outer if any(True for _ in m.parameters())]

    def trained(self, root):
        if not root.training or isinstance(root, self.torch.jit.ScriptModule):
            return False
        return any(p.requires_grad for p in root.parameters())

    def named(self, compiled=False):
        """(module, its name) of all that can be hooked; also of those that `Module.compile` compiled, if asked for."""
        found, seen, taken = [], set(), {}
        for i, root in enumerate(self.roots()):
            base = ""
            if i > 0:
                kind = type(root).__name__
                taken[kind] = taken.get(kind, 0) + 1
                base = kind if taken[kind] == 1 else "%s#%d" % (kind, taken[kind])
            self.walk(root, base, found, seen, compiled)
        return found

    def walk(self, root, base, found, seen, with_compiled):
        waiting = [(root, base, True)]
        while waiting and len(found) < MOST:
            module, name, told = waiting.pop()
            if id(module) in seen or isinstance(module, self.torch.jit.ScriptModule):
                continue
            seen.add(id(module))
            if module.__dict__.get("_compiled_call_impl") is not None:  # its hooks would be compiled as well
                if with_compiled:
                    found.append((module, name))
                continue
            compiled = type(module).__name__ == "OptimizedModule"
            children = [(n, m) for n, m in module.__dict__.get("_modules", {}).items() if m is not None]
            wrapper = not compiled and is_wrapper(children)
            if told and not wrapper:
                found.append((module, name))
            if compiled:
                continue
            for child, m in reversed(children):
                waiting.append((m, name if wrapper else "%s.%s" % (name, child) if name else str(child), True))

    def titles(self):
        """{id: titles of the module and of those around it}, also of modules inside of compiled ones, and of parameters."""
        found = {}
        for i, root in enumerate(self.roots()):
            waiting = [(root, "" if i == 0 else type(root).__name__, ())]
            while waiting and len(found) < 4 * MOST:
                module, name, around = waiting.pop()
                if id(module) in found:
                    continue
                children = [(n, m) for n, m in module.__dict__.get("_modules", {}).items() if m is not None]
                through = is_wrapper(children) or (len(children) == 1 and children[0][0] == "_orig_mod")
                runs = not through and type(module).forward is not self.torch.nn.Module.forward  # lists of modules do not
                own = (*around, title_of(module, name)) if runs else around
                found[id(module)] = own
                found.update((id(p), own) for p in module.__dict__.get("_parameters", {}).values() if p is not None)
                waiting.extend((m, name if through else "%s.%s" % (name, n) if name else str(n), own) for n, m in children)
        return found

    # ---- hooks on and off

    def step_ended(self, step):
        """The next one begins."""
        if self.followed:
            self.remove()
        elif self.handles:
            self.remove()
            step_ns = self.hooks.training.last_ns
            beyond = self.hook_ns > self.hooks.guard.budget * step_ns * EVERY
            self.off, self.beyond = beyond and self.beyond, beyond  # once may be because the host was busy
            if self.off:
                self.hooks.guard.note("modules off", "modules cost %.1f %% of a sampled step, more than the budget allows: "
                                      "they are not recorded from step %d on" % (100 * self.hook_ns / max(1, step_ns), step + 1))
        if sampled(step + 1) and not self.off and not self.hooks.guard.off and probe.functions() is not None:
            self.hook_ns = 0
            for module, name in self.named():
                self.hook(module, name)

    def follow(self, measure=None, always=False):
        """Hooks the modules, so that `running` and `path` know who runs until the step ends, and `measure` is told; beyond the
        budget too, if it must always be. Whether it does."""
        if self.handles or (self.off and not always) or "module ranges" in self.hooks.guard.failed:
            return False
        self.followed, self.measure = True, measure
        for module, name in self.named():
            self.hook(module, name)
        return True

    def running(self):
        """Titles of the modules that run on this thread, or whose backward pass does."""
        return {entry[4] for entry in self.opened()}.union(self.backwards)

    def path(self):
        """(titles of the modules that run on this thread, the outermost first; whether it is their backward pass)."""
        stack = self.opened()
        if stack:
            return [entry[4] for entry in stack], False
        return sorted(self.backwards, key=depth), True

    def remove(self):
        self.followed, self.measure, self.backwards = False, None, []
        handles, self.handles = self.handles, []
        for handle in handles:
            handle.remove()

    def hook(self, module, name):
        title = title_of(module, name)
        forward, backward = ("module: " + title).encode("utf-8", "replace"), ("module backward: " + title).encode("utf-8", "replace")
        functions, failed, opened, tensor = probe.functions(), self.failed, self.opened, self.torch.Tensor
        key, measure = id(module), self.measure

        def before(_, arguments, named=None):
            try:
                begin = now()
                nodes = nodes_of(tensor, arguments, named)
                stack = opened()
                middle = now()
                self.hook_ns += middle - begin
                stack.append([key, middle, nodes, None, title])
                if measure is not None:
                    measure.enters(title)
                if self.moved is not None:
                    self.moved()
            except Exception as error:  # noqa: BLE001 (the program comes first)
                failed(error)

        def after(_, arguments, named_or_result, result=None):
            try:
                end = now()
                if measure is not None:
                    measure.leaves(title)
                stack = opened()
                while stack:  # those above it ended with an exception
                    own, begin, nodes, last, _ = stack.pop()
                    if own == key:
                        break
                else:
                    return
                if self.moved is not None:
                    self.moved()
                if not self.followed:
                    functions.range_at(forward, begin, end)
                last = self.backward(title, backward, nodes, result if self.new else named_or_result, last)
                if last is not None and stack and stack[-1][3] is None:
                    stack[-1][3] = last
                self.hook_ns += now() - end
            except Exception as error:  # noqa: BLE001
                failed(error)

        before._torchdynamo_disable = after._torchdynamo_disable = True  # where something around the module is compiled
        if self.new:
            self.handles.append(module.register_forward_pre_hook(before, prepend=True, with_kwargs=True))
            self.handles.append(module.register_forward_hook(after, with_kwargs=True))
        else:
            self.handles.append(module.register_forward_pre_hook(before))
            self.handles.append(module.register_forward_hook(after))

    def opened(self):
        try:
            return self.open.stack
        except AttributeError:
            self.open.stack = []
            return self.open.stack

    def failed(self, error):
        """Torch goes over its hooks now: they are taken off when the step ends."""
        self.off = True
        self.hooks.guard.failure("module ranges", error)

    # ---- backward

    def backward(self, title, name, inputs, result, last):
        """Follows the gradients of a module that has just returned. `last`: of those in it that were given nothing with a
        gradient, the node that runs last. Returns that of this one."""
        outputs = nodes_of(self.torch.Tensor, (result,), None)
        for node in inputs:
            outputs.pop(node, None)  # it returned what it was given
        if not outputs:
            return None
        functions, followed = probe.functions(), self.followed
        state = [0]

        def begins(*_):
            if not state[0]:
                state[0] = now()
                self.backwards.append(title)
                if self.moved is not None:
                    self.moved()

        def ends(*_):
            begin, state[0] = state[0], 0
            if not begin:
                return
            if title in self.backwards:
                self.backwards.remove(title)
            if self.moved is not None:
                self.moved()
            if not followed:
                functions.range_at(name, begin, now())

        last = None if inputs else last or self.last_of(outputs)
        if not inputs and last is None:
            return None
        for node, tensor in outputs.items():
            self.in_front(node, tensor, begins)
        # It ends when its own nodes in front of the inputs have run. The nodes of the inputs also wait for other branches:
        # they end it where that is not known. No hook holds a node, which would keep the graph for ever.
        edges = self.edges_to(inputs, outputs)
        left = [len(edges)]

        def one_ended():
            left[0] -= 1
            if left[0] == 0:
                ends()

        for node in edges:
            node.register_hook(self.careful(one_ended))
        for node, tensor in inputs.items():
            self.in_front(node, tensor, ends)
        if last is not None:
            last.register_hook(self.careful(ends))
        return last

    def careful(self, function):
        """For torch to call: nothing goes wrong for the program."""
        def called(*_):
            try:
                begin = now()
                function()
                self.hook_ns += now() - begin
            except Exception as error:  # noqa: BLE001 (the program comes first)
                self.failed(error)

        return called

    def in_front(self, node, tensor, function):
        """Calls it when the node is about to run."""
        if hasattr(node, "register_prehook"):
            node.register_prehook(self.careful(function))
        else:
            tensor.register_hook(self.careful(function))

    @staticmethod
    def edges_to(inputs, outputs):
        """The nodes of a module that hand gradients on to its inputs; none: there are too many to look."""
        waiting, seen, edges = list(outputs), set(), set()
        while waiting:
            node = waiting.pop()
            if node in seen or node in inputs:
                continue
            seen.add(node)
            if len(seen) > BRANCH:
                return set()
            following = [n for n, _ in node.next_functions if n is not None]
            if any(n in inputs for n in following):
                edges.add(node)
            waiting.extend(following)
        return edges

    @staticmethod
    def last_of(outputs):
        """The node of a module without gradients of its inputs that runs last; None: there are too many to look."""
        waiting, seen, last = list(outputs), set(), None
        while waiting:
            node = waiting.pop(0)
            if node in seen:
                continue
            seen.add(node)
            if len(seen) > WALK:
                return None
            following = [n for n, _ in node.next_functions if n is not None and type(n).__name__ != "AccumulateGrad"]
            if not following:
                last = node
            waiting.extend(following)
        return last


def is_wrapper(children):
    """A module around one other, as of DDP or FSDP, has no name."""
    return len(children) == 1 and children[0][0] in ("module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def title_of(module, name):
    """"blocks.7.attn (Attention)"."""
    return "%s (%s)" % (name or "model", type(unwrapped(module)).__name__)


def depth(title):
    """How deep in the model a module is, by its title."""
    return 0 if title.startswith("model (") else 1 + title.count(".")


def unwrapped(module):
    """What torch.compile has compiled."""
    original = module.__dict__.get("_modules", {}).get("_orig_mod")
    return module if original is None else original


def nodes_of(kind, arguments, named):
    """{node: tensor}: what computed the tensors, in tuples, lists and dictionaries of one level."""
    nodes = {}
    for value in arguments if not named else (*arguments, *named.values()):
        if isinstance(value, dict):
            value = tuple(value.values())
        for part in value[:16] if isinstance(value, (tuple, list)) else (value,):
            if isinstance(part, kind) and part.grad_fn is not None:
                nodes.setdefault(part.grad_fn, part)
    return nodes
