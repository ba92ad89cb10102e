"""Hooks torch in this process, when it is imported: steps, phases, waits, pauses and gloo operations.

`install()` is called by `import tracesmith.auto`, and by the sitecustomize of `tracesmith run`. It imports nothing of
torch. A hook that fails turns itself off and says so in one line; the program never sees an exception of ours.
"""
import os
import sys

from . import imports

_LOADED = "_tracesmith_hooks_installed"


def install(always=False):
    """Hooks torch now if it is imported, else when it is. Once per process, whoever calls it first.

    `always`: also where the probe is not there yet.
    """
    if getattr(sys, _LOADED, False) or not (always or os.environ.get("TRACESMITH_DIR")):
        return  # without a folder for its ring the probe does nothing
    setattr(sys, _LOADED, True)
    imports.after("torch", _hook)


def _hook(torch):
    from . import torch_hooks

    torch_hooks.install(torch)
