"""The sitecustomize of ``tracesmith run``: Python programs are as they were."""

import glob
import os
import shutil
import subprocess
import sys

import pytest

from tracesmith import _places


def run(*command, **env):
    own = dict(os.environ, **env)
    done = subprocess.run([_places.command(), "run", "--force", "--no-telemetry", "-o", own.pop("TRACE"),
                           "--", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60, env=own)
    assert done.returncode == 0, done.stderr
    return done


def hooked(output):
    return "_tracesmith_hooks" in output


SHOW = "import sys; print(sorted(m for m in sys.modules if 'tracesmith' in m), [p for p in sys.path if 'hooks' in p])"


def test_a_program_without_torch_loads_two_small_modules(tmp_path):
    out = run(sys.executable, "-c", SHOW, TRACE=str(tmp_path / "t.sbt")).stdout
    assert hooked(out) and "torch_hooks" not in out
    assert out.strip().endswith("[]")  # sys.path is as it was


def test_a_sitecustomize_of_the_users_runs_too(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine', __name__)\n")
    (tmp_path / "usercustomize.py").write_text("")
    out = run(sys.executable, "-c", SHOW + "; import sitecustomize; print(sitecustomize.__file__)",
              TRACE=str(tmp_path / "t.sbt"), PYTHONPATH=str(tmp_path)).stdout
    assert out.startswith("mine sitecustomize\n")
    assert out.rstrip().endswith(str(tmp_path / "sitecustomize.py"))
    assert hooked(out)


def test_isolated_pythons_are_left_alone(tmp_path):
    for flag in ("-I", "-E", "-S"):
        assert not hooked(run(sys.executable, flag, "-c", SHOW, TRACE=str(tmp_path / "t.sbt")).stdout), flag


def test_a_virtual_environment(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True, timeout=60)
    assert hooked(run(str(tmp_path / "venv/bin/python"), "-c", SHOW, TRACE=str(tmp_path / "t.sbt")).stdout)


def test_no_python_leaves_the_path_alone(tmp_path):
    done = subprocess.run([_places.command(), "run", "--force", "--no-python", "-o", str(tmp_path / "t.sbt"), "--",
                           sys.executable, "-c", SHOW], stdout=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert not hooked(done.stdout)


def test_versions_that_are_not_known_are_left_alone(tmp_path):
    for version in ("0.4.1", "9.0", "odd"):
        (tmp_path / "torch.py").write_text("__version__ = %r\n" % version)
        done = run(sys.executable, "-c", "import torch; print(torch.__version__)", TRACE=str(tmp_path / "t.sbt"), PYTHONPATH=str(tmp_path))
        assert done.stdout == version + "\n"
        assert "tracesmith: torch %s is not hooked: known are 1.13 to 2.x\n" % version in done.stderr


def test_a_torch_that_lacks_everything_still_works(tmp_path):
    (tmp_path / "torch.py").write_text("__version__ = '2.5.0'\nx = 1\n")
    done = run(sys.executable, "-c", "import torch; print(torch.x)", TRACE=str(tmp_path / "t.sbt"), PYTHONPATH=str(tmp_path))
    assert done.stdout == "1\n"
    assert "Traceback" not in done.stderr and "failed and is off" in done.stderr


def test_an_import_that_fails_fails_as_before(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no libcuda')\n")
    code = "\ntry:\n    import torch\nexcept ImportError as e:\n    print(e)"
    assert run(sys.executable, "-c", code, TRACE=str(tmp_path / "t.sbt"), PYTHONPATH=str(tmp_path)).stdout == "no libcuda\n"


def test_without_the_probe_nothing_is_recorded(python):
    python("import tracesmith.auto, sys; assert 'torch' not in sys.modules")
    python("from tracesmith import marks; marks.step(1); marks.counter('x', 2); marks.metadata('a', 'b'); assert not marks.recording()")


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10", "3.12", "3.13", "3.14"])
def test_other_pythons(tmp_path, version):
    """Of this machine; those before 3.7 have no torch that we know."""
    other = next(iter(glob.glob(os.path.expanduser("~/.pyenv/versions/%s.*/bin/python" % version))), shutil.which("python" + version))
    if other is None:
        pytest.skip("Python %s is not here" % version)
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.stdout.write('mine\\n')\n")
    code = "import sys; sys.stdout.write(str(sorted(m for m in sys.modules if 'tracesmith' in m)))"
    done = run(other, "-c", code, TRACE=str(tmp_path / "t.sbt"), PYTHONPATH=str(tmp_path))
    assert done.stdout.startswith("mine\n")
    assert hooked(done.stdout) == (version not in ("2.7", "3.6"))
    assert "not hooked" not in done.stderr
    if hooked(done.stdout):
        marks = "import sys; sys.path.insert(0, sys.argv[1]); from tracesmith import marks; marks.counter('x', 1); print(marks.recording())"
        assert run(other, "-c", marks, os.environ["PYTHONPATH"].split(":")[0], TRACE=str(tmp_path / "t.sbt"), PYTHONPATH="").stdout == "True\n"
