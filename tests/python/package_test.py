"""The package as a whole: importing it, and the command."""

import os
import shutil

import tracesmith


def test_importing_it_loads_neither_large_packages_nor_native_libraries(python):
    loaded = python(
        "import sys, tracesmith\n"
        "maps = open('/proc/self/maps').read()\n"
        "print([m for m in ('torch', 'numpy', 'pandas', 'ctypes', 'subprocess') if m in sys.modules],"
        " 'libtracesmith' in maps)"
    )
    assert loaded == "[] False\n"


def test_it_has_what_it_says_and_nothing_else(python):
    names = python("import tracesmith\nprint([n for n in tracesmith.__all__ if n not in dir(tracesmith)])")
    assert names == "[]\n"
    answer = python("import tracesmith\ntry:\n  tracesmith.nothing\nexcept AttributeError as e:\n  print(e)")
    assert answer == "module 'tracesmith' has no attribute 'nothing'\n"


def test_python_m_tracesmith_is_the_command(python, command):
    same = python("import os, sys\nos.execv(sys.executable, [sys.executable, '-m', 'tracesmith', '--help'])")
    assert same == command("--help")


def test_a_missing_command_is_told_in_one_line(python, tmp_path):
    code = (
        "import subprocess, sys, os\n"
        "done = subprocess.run([sys.executable, '-m', 'tracesmith'], stderr=subprocess.PIPE, cwd=sys.argv[1],"
        " env={'PYTHONPATH': sys.argv[1], 'PATH': '/nowhere'})\n"
        "print(done.returncode, done.stderr.decode(), end='')"
    )
    package = os.path.dirname(tracesmith.__file__)
    shutil.copytree(package, str(tmp_path / "tracesmith"), ignore=shutil.ignore_patterns("native"))
    answer = python(code, str(tmp_path))
    assert answer.startswith("1 tracesmith: bin/tracesmith is not installed") and answer.count("\n") == 1
