"""`import tracesmith.auto` hooks torch: steps, phases, data waits and gloo operations are in the trace by themselves.

Not needed under `tracesmith run`, which does it for every Python program it starts. Elsewhere it is for `tracesmith.record`;
while nobody records, hooks do nothing.
"""
from . import hooks as _hooks

_hooks.install(always=True)
