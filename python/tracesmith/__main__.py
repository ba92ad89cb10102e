"""``python -m tracesmith …`` is the command ``tracesmith …``."""

import os
import sys

from tracesmith import _places


def main() -> None:
    command = _places.command()
    try:
        os.execv(command, ["tracesmith"] + sys.argv[1:])
    except OSError as error:
        sys.exit("tracesmith: cannot run {}: {}".format(command, error.strerror))


if __name__ == "__main__":
    try:
        main()
    except _places.Missing as missing:
        sys.exit("tracesmith: {}".format(missing))
