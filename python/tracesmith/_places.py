"""Where the command and the native libraries are.

A place is a folder with ``bin`` and ``lib``, as ``make build`` and ``make install`` make it. The first of these that has
the file is taken: ``$TRACESMITH_HOME``, the folder inside an installed wheel, the build folder of a checkout, and the
prefix of the ``tracesmith`` on ``PATH``.
"""

import os
import shutil
from typing import Iterator

_PACKAGE = os.path.dirname(os.path.abspath(__file__))


class Missing(RuntimeError):
    """A part of TraceSmith is not installed."""


def _places() -> Iterator[str]:
    home = os.environ.get("TRACESMITH_HOME")
    if home:
        yield home
    yield os.path.join(_PACKAGE, "native")
    checkout = os.path.dirname(os.path.dirname(_PACKAGE))
    if os.path.exists(os.path.join(checkout, "include", "tracesmith", "tracesmith.h")):
        yield os.path.join(checkout, "build")
    command = shutil.which("tracesmith")
    if command:
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(command)))
        # Not the script that pip makes, which would run itself.
        if any(os.path.exists(os.path.join(prefix, lib, "libtracesmith_probe.so")) for lib in ("lib", "lib/tracesmith")):
            yield prefix


def _find(*names: str) -> str:
    for place in _places():
        for name in names:
            path = os.path.join(place, *name.split("/"))
            if os.path.exists(path):
                return path
    raise Missing(
        "{} is not installed: run `make build` in the checkout, install the wheel, or set TRACESMITH_HOME to a folder "
        "that has it".format(names[0])
    )


def command() -> str:
    """The program ``tracesmith``."""
    return _find("bin/tracesmith")


def library(name: str) -> str:
    """One of its libraries, such as ``libtracesmith_probe.so``."""
    return _find("lib/" + name, "lib/tracesmith/" + name)
