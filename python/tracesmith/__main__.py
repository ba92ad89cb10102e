"""``python -m tracesmith …`` is the command ``tracesmith …``."""

import os
import sys

from tracesmith import _places


def main() -> None:
    try:
        command = _places.command()
        os.execv(command, ["tracesmith"] + sys.argv[1:])
    except _places.Missing as missing:
        sys.exit("tracesmith: {}".format(missing))
    except OSError as error:
        sys.exit("tracesmith: cannot run {}: {}".format(command, error.strerror))


if __name__ == "__main__":
    main()
