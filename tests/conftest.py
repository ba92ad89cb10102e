"""Finds the package in this checkout when pytest is run by hand; ctest sets PYTHONPATH and TRACESMITH_HOME."""

import os
import sys

CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if "TRACESMITH_HOME" not in os.environ:
    sys.path.insert(0, os.path.join(CHECKOUT, "python"))
