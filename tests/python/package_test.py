"""The package as a whole: importing it, and the command."""

import os
import shutil
import subprocess
import sys

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


def test_a_missing_command_is_told_in_one_line(tmp_path):
    """Also where the script that pip makes is the `tracesmith` on the path: it must not run itself."""
    package = os.path.dirname(tracesmith.__file__)
    shutil.copytree(package, str(tmp_path / "tracesmith"), ignore=shutil.ignore_patterns("native"))
    script = tmp_path / "bin" / "tracesmith"
    script.parent.mkdir()
    script.write_text("#!{}\nfrom tracesmith.__main__ import main\nmain()\n".format(sys.executable))
    script.chmod(0o755)
    environment = {"PYTHONPATH": str(tmp_path), "PATH": str(script.parent)}
    done = subprocess.run([str(script)], stderr=subprocess.PIPE, universal_newlines=True, env=environment, timeout=30)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("tracesmith: bin/tracesmith is not installed")
