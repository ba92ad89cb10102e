"""Operations of what torch.compile has compiled, by module.

A compiled model does not run the operators that it was written with: some are fused, others replaced. So the operations of
a graph are counted when torch.compile hands it to its backend: it is run once on fake tensors, which have shapes but no
memory, forward and backward, as it would run if it were not compiled. On a step that is counted, each call of the compiled
graph adds what was counted then, and what runs inside of it is not counted again.
"""
import contextlib

from . import flops, imports

MOST_NODES = 20000  # of a graph; counting takes about 0.1 ms for each
MOST_WALKED = 2000  # nodes of autograd looked at for backward passes that are compiled
COMPILED_NODE = "CompiledFunctionBackward"
KNOWN = ("torch", "_operator", "operator", "builtins", "math")  # whose functions may run once more


class Unknown(Exception):
    """The operations of a graph cannot be counted."""


class Graph:
    """What a compiled graph takes: {precision: operations} and {module: operations}. `known`: whether that is known."""

    def __init__(self):
        self.known = False
        self.forward, self.backward = ({}, {}), ({}, {})
        self.inputs = []  # of each, the titles of the modules that it is a parameter of, when the graph was compiled


class Compiled:
    """Graphs of one process."""

    def __init__(self, hooks):
        self.hooks = hooks
        self.torch = hooks.torch
        self.graphs = {}  # name: (where it is a global variable, graph)
        self.watching = False
        self.disturbed = False  # torch compiled again while a step was counted: maybe because of that
        self.counter = None  # of the step that is counted
        self.by_module = self.running = None
        self.titles = {}  # of modules and parameters
        self.replaced = []  # then: (where, name, ours, torch's)
        imports.after("torch._dynamo.output_graph", lambda module: hooks.safely("compiled operations", self.watch, module))

    def ready(self):
        """Whether a step with compiled graphs can be counted."""
        return self.watching and not self.disturbed and flops.leaves_compiled(self.torch)

    def watch(self, module):
        """Looks at each graph that torch.compile hands to its backend, and at the name under which it calls the result."""
        kind, safely = module.OutputGraph, self.hooks.safely
        compile_graph, install = kind.call_user_compiler, kind.install_global_unsafe

        def call_user_compiler(output, gm, *arguments, **named):
            self.disturbed = self.disturbed or self.counter is not None
            output._tracesmith_graph = safely("compiled operations", self.count, gm)
            return compile_graph(output, gm, *arguments, **named)

        def install_global_unsafe(output, name, value):
            install(output, name, value)
            if name.startswith("__compiled_fn"):
                safely("compiled operations", self.installed, output, name)

        kind.call_user_compiler, kind.install_global_unsafe = call_user_compiler, install_global_unsafe
        self.watching = True

    def installed(self, output, name):
        graph = output.__dict__.pop("_tracesmith_graph", None) or Graph()
        self.graphs = {n: kept for n, kept in self.graphs.items() if n in kept[0]}  # without those that torch has removed
        self.graphs[name] = (output.global_scope, graph)
        if self.counter is not None:
            self.replace(output.global_scope, name, graph)

    # ---- counting a graph

    def count(self, gm):
        graph = Graph()
        try:
            self.run(gm, graph)
            graph.known = True
        except Exception:  # noqa: BLE001 (a graph that cannot be run once more is not counted)
            pass
        return graph

    def run(self, gm, graph):
        torch = self.torch
        nodes = list(gm.graph.nodes)
        if len(nodes) > MOST_NODES or not all(is_known(node) for node in nodes):
            raise Unknown
        from torch._dynamo.utils import preserve_rng_state
        from torch._subclasses.fake_tensor import FakeTensorMode

        fake = FakeTensorMode()
        inputs = [self.fake_of(node.meta.get("example_value"), fake) for node in nodes if node.op == "placeholder"]
        titles = self.hooks.model.titles()
        graph.inputs = [titles.get(id(example_of(node))) for node in nodes if node.op == "placeholder"]
        owner = Owner(titles)
        training, cached = torch.is_grad_enabled(), torch.is_autocast_cache_enabled()
        runner = runner_of(torch, gm, owner, lambda value: self.fake_of(value, fake))
        torch.set_autocast_cache_enabled(False)  # it would keep fake tensors
        try:
            with preserve_rng_state(), fake:
                with self.counted(graph.forward, owner):
                    outputs = runner.run(*inputs)
                given = [t for t in inputs if isinstance(t, torch.Tensor) and t.requires_grad]
                wanted = [t for t in tensors_in(torch, outputs) if t.requires_grad]
                if training and given and wanted:
                    gradients = [torch.empty_like(t) for t in wanted]
                    with self.counted(graph.backward, owner):
                        torch.autograd.grad(wanted, given, gradients, allow_unused=True)
        finally:
            runner.leave()
            torch.set_autocast_cache_enabled(cached)
            torch._C._set_grad_enabled(training)

    @contextlib.contextmanager
    def counted(self, into, owner):
        counter = flops.counter_of(self.torch, lambda: owner.titles, into[1])
        with counter:
            yield
        if counter.off:
            raise Unknown
        into[0].update(counter.flops)

    def fake_of(self, value, fake):
        """Of the same shape, and with numbers where the graph has symbols."""
        torch = self.torch
        if isinstance(value, torch.Tensor):
            if type(value).__name__ not in ("FakeTensor", "Tensor", "Parameter", "Buffer") or value.layout is not torch.strided:
                raise Unknown
            with fake:
                return torch.empty_strided([number(n) for n in value.size()], [number(n) for n in value.stride()], dtype=value.dtype,
                                           device=value.device, requires_grad=value.requires_grad)
        return number(value)

    # ---- a step that is counted

    def begins(self, counter, running, by_module):
        """`counter` counts all operators that are not compiled."""
        self.counter, self.running, self.by_module = counter, running, by_module
        self.titles = self.hooks.model.titles() if self.graphs else {}
        for name, (scope, graph) in list(self.graphs.items()):
            if name in scope:
                self.replace(scope, name, graph)

    def ended(self):
        self.counter, self.titles = None, {}
        replaced, self.replaced = self.replaced, []
        for scope, name, ours, original in replaced:
            if scope.get(name) is ours:
                scope[name] = original

    def replace(self, scope, name, graph):
        original, counter, safely = scope[name], self.counter, self.hooks.safely

        def counted(*arguments, **named):
            counter.quiet += 1
            try:
                result = original(*arguments, **named)
            finally:
                counter.quiet -= 1
            safely("compiled operations", self.called, counter, graph, arguments, result)
            return result

        ours = self.torch._dynamo.disable(counted)
        scope[name] = ours
        self.replaced.append((scope, name, ours, original))

    def called(self, counter, graph, arguments, result):
        if counter is not self.counter:
            return
        if not graph.known:
            counter.off = True
            return
        nodes = compiled_nodes(self.torch, result)
        if graph.backward[0] and not nodes:  # a backend that leaves backward as it was
            counter.off = True
            return
        around = set(self.running()) if self.running is not None else set()
        names = Names(graph.inputs, [self.titles.get(id(a)) for a in arguments])
        self.add(counter, graph.forward, around, names)
        left = [graph.backward]

        def begins(*_):
            counter.quiet += 1
            if left:
                self.add(counter, left.pop(), around, names)

        def ends(*_):
            counter.quiet -= 1

        for node in nodes:
            node.register_prehook(begins)
            node.register_hook(ends)

    def add(self, counter, counts, around, names):
        if counter is not self.counter:
            return
        for precision, count in counts[0].items():
            counter.flops[precision] = counter.flops.get(precision, 0) + count
        for title in around:
            self.by_module[title] = self.by_module.get(title, 0) + sum(counts[0].values())
        for title, count in counts[1].items():
            title = names.of(title)
            if title not in around:
                self.by_module[title] = self.by_module.get(title, 0) + count


class Names:
    """Layers that are alike share what is compiled: the names of this call's modules, by its parameters."""

    def __init__(self, compiled, called):
        self.names = {}
        for before, own in zip(compiled, called):
            if before and own and before != own and len(before) == len(own):
                self.names.update(zip(before, own))

    def of(self, title):
        if title in self.names or not self.names:
            return self.names.get(title, title)
        name = title.partition(" (")[0]
        inner = [(b, a) for b, a in self.names.items() if name.startswith(b.partition(" (")[0] + ".")]
        if not inner:
            return title
        before, own = max(inner, key=lambda pair: len(pair[0].partition(" (")[0]))
        return own.partition(" (")[0] + title[len(before.partition(" (")[0]) :]


class Owner:
    """Which modules an operator belongs to. `names`: {id: (titles of the module and of those around it)}."""

    def __init__(self, names):
        self.names = names
        self.titles = ()
        self.seen = set()  # nodes of autograd

    def enters(self, node):
        """`node`: of the graph."""
        self.titles = ()
        for key in reversed(list(node.meta.get("nn_module_stack") or ())):
            key = str(key).partition("@")[0]
            if key.isdigit() and int(key) in self.names:
                self.titles = self.names[int(key)]
                return

    def leaves(self, tensors):
        """The nodes that were made for it belong to the same modules."""
        titles, waiting = self.titles, [t.grad_fn for t in tensors if t.grad_fn is not None]

        def begins(*_):
            self.titles = titles

        while waiting:
            node = waiting.pop()
            if node in self.seen:
                continue
            self.seen.add(node)
            node.register_prehook(begins)
            waiting.extend(n for n, _ in node.next_functions if n is not None)


def runner_of(torch, gm, owner, fake):
    """Runs a graph, and knows for which modules."""

    class Runner(torch.fx.Interpreter):
        entered = ()  # contexts of autocast
        constants = {}

        def run_node(self, node):
            owner.enters(node)
            result = super().run_node(node)
            owner.leaves(tensors_in(torch, result))
            name = getattr(node.target, "__name__", "")
            if name == "_enter_autocast":
                self.entered = (*self.entered, result)
            elif name == "_exit_autocast":
                self.entered = self.entered[:-1]
            return result

        def get_attr(self, target, arguments, named):
            value = super().get_attr(target, arguments, named)
            if not isinstance(value, torch.Tensor):
                return value
            if target not in self.constants:
                self.constants = dict(self.constants, **{target: fake(value.detach())})
            return self.constants[target]

        def leave(self):
            """Leaves what a graph that failed has entered."""
            for context in reversed(self.entered):
                torch.amp.autocast_mode._exit_autocast(context)

    return Runner(gm)


def is_known(node):
    """Whether it does nothing but compute."""
    if node.op == "call_module":
        return False
    if node.op != "call_function":
        return True
    return str(getattr(node.target, "__module__", None) or type(node.target).__module__).partition(".")[0] in KNOWN


def example_of(placeholder):
    """What the graph was compiled with."""
    return getattr(placeholder.meta.get("grapharg"), "example", None)


def number(value):
    """The number that a symbol stands for."""
    node = getattr(value, "node", None)
    if node is not None and node.hint is not None:
        return type(node.hint)(node.hint)
    if isinstance(value, (bool, int, float)):
        return value
    raise Unknown


def tensors_in(torch, value):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [t for part in value for t in tensors_in(torch, part)]


def compiled_nodes(torch, result):
    """The nodes of autograd that run compiled backward passes for this result."""
    waiting, seen, found = [t.grad_fn for t in tensors_in(torch, result) if t.grad_fn is not None], set(), []
    while waiting and len(seen) < MOST_WALKED:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if COMPILED_NODE in type(node).__name__:
            found.append(node)
        waiting.extend(n for n, _ in node.next_functions if n is not None)
    return found
