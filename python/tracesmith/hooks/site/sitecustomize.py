"""`tracesmith run` puts this folder on PYTHONPATH: it hooks torch, then runs the sitecustomize that it hides."""
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _is_here(entry):
    try:
        return isinstance(entry, str) and entry != "" and os.path.abspath(entry) == _here
    except Exception:  # noqa: BLE001 (a strange entry is not ours)
        return False


def _hook():
    # A name of its own: the program may have another version of the package `tracesmith`, or none.
    import importlib.util

    folder = os.path.dirname(_here)
    spec = importlib.util.spec_from_file_location(
        "_tracesmith_hooks", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["_tracesmith_hooks"] = module
    try:
        spec.loader.exec_module(module)
        module.install()
    except Exception:
        sys.modules.pop("_tracesmith_hooks", None)
        raise


def _next():
    if sys.version_info < (3, 5):
        import imp

        try:
            found = imp.find_module("sitecustomize", sys.path)
        except ImportError:
            return
        imp.load_module("sitecustomize", *found)
        return
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


sys.path[:] = [entry for entry in sys.path if not _is_here(entry)]
if sys.version_info >= (3, 7) and os.environ.get("TRACESMITH_PYTHON", "1") != "0":  # no torch that we know is for older ones
    try:
        _hook()
    except Exception as error:  # noqa: BLE001 (the program comes first)
        sys.stderr.write("tracesmith: torch is not hooked: %s\n" % error)
_next()
