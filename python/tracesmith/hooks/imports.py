"""Calls a function once a module has been imported, without importing it."""
import sys


class _Finder:
    """Finds the module as all others do, and puts a call behind its execution."""

    def __init__(self, name, function):
        self.name = name
        self.function = function

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        self.remove()  # one look is enough, also if the import fails
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is None:
                continue
            execute = getattr(spec.loader, "exec_module", None)
            if execute is not None:
                try:
                    spec.loader.exec_module = self.behind(spec.loader, execute)
                except AttributeError:  # a loader that takes no attributes: left alone
                    pass
            return spec
        return None

    def behind(self, loader, execute):
        def exec_module(module):
            try:
                del loader.exec_module
            except AttributeError:
                pass
            execute(module)
            call(self.function, module)

        return exec_module

    def remove(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)


def call(function, module):
    """Calls it; what goes wrong is one line."""
    try:
        function(module)
    except Exception as error:  # noqa: BLE001 (the program comes first)
        say("torch is not hooked: %s: %s" % (type(error).__name__, error))


def say(text):
    """One line for people."""
    try:
        sys.stderr.write("tracesmith: %s\n" % text)
    except Exception:  # noqa: BLE001 (nobody reads it)
        pass


def after(name, function):
    """Calls function(module) once the module has been imported; at once if it is there."""
    module = sys.modules.get(name)
    if module is not None:
        call(function, module)
    else:
        sys.meta_path.insert(0, _Finder(name, function))
