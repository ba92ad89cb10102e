"""The wheel: installed into an empty environment without an index, it is all that is needed."""

import glob
import os
import subprocess
import sys
import zipfile

import pytest

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(*args, **options):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.usefixtures("needs_query")
def test_the_wheel_works_in_an_empty_environment(tmp_path, job):
    pytest.importorskip("ensurepip")
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TRACESMITH_HOME")}
    environment.update(LEVEL="0", TRACESMITH_BUILD=os.environ["TRACESMITH_HOME"])
    run(sys.executable, "-m", "venv", str(tmp_path / "venv"))
    python = str(tmp_path / "venv" / "bin" / "python")
    # As `pip install .` does, but for the build, which is there.
    run(python, "-m", "pip", "install", "-q", "--no-index", "--no-build-isolation", CHECKOUT, env=environment, cwd=str(tmp_path))
    code = (
        "import tracesmith, tracesmith.cluster\n"
        "trace = tracesmith.Trace({!r})\n"
        "master = tracesmith.cluster.ClusterMaster(listen_port=0, data_dir='data')\n"
        "print(trace.query('SELECT count(*) FROM events').scalar(), trace.analyze().verdict.rank, master.start())\n"
        "maps = {{line.split()[-1] for line in open('/proc/self/maps') if '.so' in line}}\n"
        "print(sorted(m for m in maps if 'grpc' in m or 'tracesmith' in m))\n".format(job)
    )
    out = run(python, "-c", code, env=environment, cwd=str(tmp_path)).splitlines()
    assert out[0] == "20000 3 True"
    assert all(path.startswith(str(tmp_path)) for path in eval(out[1])) and len(eval(out[1])) >= 5
    # Type checkers know the methods of the classes, in both spellings.
    where = run(python, "-c", "import tracesmith.cluster as c; print(c.__file__ + 'i')", env=environment, cwd=str(tmp_path)).strip()
    with open(where) as file:
        signatures = file.read()
    compile(signatures, where, "exec")
    assert "def getEvents(self, __0: int = ...) -> List[TraceEvent]: ..." in signatures and "def get_events(self" in signatures
    command = str(tmp_path / "venv" / "bin" / "tracesmith")
    assert "rank 3" in run(command, "analyze", job, env=environment)
    run(command, "run", "-o", str(tmp_path / "run.sbt"), "--", "true", env=environment, cwd=str(tmp_path))


def test_an_installation_to_edit_points_at_the_checkout(tmp_path):
    sys.path.insert(0, os.path.join(CHECKOUT, "python"))
    import wheel_backend

    name = wheel_backend.build_editable(str(tmp_path))
    with zipfile.ZipFile(str(tmp_path / name)) as wheel:
        assert wheel.read("tracesmith.pth").decode().strip() == os.path.join(CHECKOUT, "python")
        listed = {line.split(",")[0] for line in wheel.read(glob.fnmatch.filter(wheel.namelist(), "*/RECORD")[0]).decode().split()}
        assert listed == set(wheel.namelist())
