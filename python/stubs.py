"""Prints tracesmith/cluster/__init__.pyi, which the wheel has inside: the signatures of the classes, from the libraries'
own description of them.

    PYTHONPATH=python TRACESMITH_HOME=build python3 python/stubs.py
"""
import inspect
import re

from tracesmith import _native, cluster
from tracesmith._objects import snake

PLAIN = ("int", "float", "str", "bool", "bytes", "None")


def type_of(kind, structs):
    """Of the description: "list[TraceEvent]", "dict[str]", "float?"."""
    if kind.endswith("?"):
        return "Optional[%s]" % type_of(kind[:-1], structs)
    inner = re.match(r"(list|dict)\[(.*)\]$", kind)
    if inner:
        of = type_of(inner.group(2), structs)
        return "List[%s]" % of if inner.group(1) == "list" else "Dict[str, %s]" % of
    if kind == "dict":
        return "Dict[str, Any]"
    return kind if kind in PLAIN or kind in structs else "Any"


def struct_text(name, fields, structs):
    out = ["class %s(Struct):" % name]
    out += ["    %s: %s" % (field, type_of(about["type"], structs)) for field, about in fields.items()]
    given = "".join(", %s: %s = ..." % (field, type_of(about["type"], structs)) for field, about in fields.items())
    out.append("    def __init__(self, fields: Optional[Dict[str, Any]] = ...%s) -> None: ..." % given)
    return out


def class_text(name, about, structs):
    config = about["config"]
    given = "" if config == "NoConfig" else "config: Optional[Union[%s, Dict[str, Any]]] = ..., **fields: Any" % config
    out = ["class %s(Object):" % name, "    def __init__(self%s) -> None: ..." % (", " + given if given else "")]
    own = vars(getattr(cluster, name))
    for method, signature in about["methods"].items():
        takes = "".join(", __%d: %s = ..." % (i, type_of(kind, structs)) for i, kind in enumerate(signature["takes"]))
        for spelled in dict.fromkeys((method, snake(method))):
            out.append("    def %s(self%s) -> %s: ..." % (spelled, takes, type_of(signature["gives"], structs)))
    for method, function in own.items():
        if inspect.isfunction(function) and not method.startswith("_"):
            text = str(inspect.signature(function)).replace("tracesmith.cluster.", "").replace("typing.", "")
            out.append("    def %s%s: ..." % (method, text.replace("NoneType", "None")))
    return out


def text():
    """Of the whole file."""
    structs, classes = {}, {}
    for library in ("libtracesmith_c.so", "libtracesmith_c_cluster.so"):
        description = _native.library(library).description
        structs.update(description["structs"])
        classes.update(description["classes"])
    out = ['"""Made from the description of the C++ API."""', "",
           "from typing import Any, Callable, Dict, List, Optional, Union", "", "from tracesmith._objects import Object, Struct"]
    for name, fields in structs.items():
        out += ["", *struct_text(name, fields, structs)]
    for name, about in classes.items():
        if hasattr(cluster, name):
            out += ["", *class_text(name, about, structs)]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    print(text(), end="")
