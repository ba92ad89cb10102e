"""`import tracesmith.auto` hooks torch: steps, phases, data waits and gloo operations are in the trace by themselves.

Not needed under `tracesmith run`, which does it for every Python program it starts. Without the probe it does nothing.
"""
from . import hooks as _hooks

_hooks.install()
