"""A real Slurm of two nodes on this machine: munged, slurmctld and two slurmd, started here and stopped again."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

CHECKOUT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("TRACESMITH_HOME", os.path.join(CHECKOUT, "build"))
PROGRAM = os.path.join(BUILD, "bin", "tracesmith")
LIMIT_S = 60
JOB = ("import os, sys, time\nfrom tracesmith import marks\n"
       "for n in range(5):\n"
       "    with marks.step(n): time.sleep(0.01)\n"
       "if sys.argv[1:]:\n"
       "    open(sys.argv[1] + os.environ['SLURM_PROCID'], 'w').close()\n"
       "    while not os.path.exists(sys.argv[1]): time.sleep(0.05)\n")


def eventually(condition, what):
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("not within {} s: {}".format(LIMIT_S, what() if callable(what) else what))


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Slurm:
    CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={home}/munge/socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd-%n.pid
SlurmdSpoolDir={home}/spool-%n
StateSaveLocation={home}/state
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=4 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=4 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""

    def __init__(self, home):
        self.home = str(home)
        self.processes = []
        for folder in ("munge", "state"):
            os.mkdir(os.path.join(self.home, folder), 0o700)
        os.chmod(self.home, 0o755)
        munge = os.path.join(self.home, "munge")
        with open(munge + "/key", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as key:
            key.write(os.urandom(128))
        user = subprocess.run(["id", "-un"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.strip()
        self.configuration = os.path.join(self.home, "slurm.conf")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(self.CONFIGURATION.format(user=user, home=self.home, host=socket.gethostname(), ports=free_ports(3)))
        self.environment = dict(os.environ, SLURM_CONF=self.configuration, PYTHONPATH=os.path.join(CHECKOUT, "python"))
        for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
            self.environment.pop(name, None)
        # Each node has a host name of its own, where this user may do that.
        self.two_hosts = subprocess.run(["unshare", "--uts", "true"], stderr=subprocess.DEVNULL).returncode == 0
        self.start("munged", "--foreground", "--force", "--socket=" + munge + "/socket", "--key-file=" + munge + "/key",
                   "--log-file=" + munge + "/log", "--pid-file=" + munge + "/pid", "--seed-file=" + munge + "/seed", "--num-threads=2")
        eventually(lambda: os.path.exists(munge + "/socket"), "munged listens")
        self.start("slurmctld", "-D", "-f", self.configuration, "-c")
        for node in ("n1", "n2"):
            slurmd = ["slurmd", "-D", "-f", self.configuration, "-N", node]
            if self.two_hosts:
                slurmd = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', node] + slurmd
            self.start(*slurmd)
        eventually(lambda: self.ask("sinfo", "-h", "-o", "%D %T") == "2 idle", self.log)

    def start(self, *command):
        with open(os.path.join(self.home, "servers.log"), "a", encoding="utf-8") as log:
            self.processes.append(subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def ask(self, *command):
        return subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True,
                              timeout=LIMIT_S).stdout.strip()

    def log(self):
        text = self.ask("sinfo")
        for name in ("servers.log", "slurmctld.log", "slurmd-n1.log", "munge/log"):
            path = os.path.join(self.home, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    text += "\n" + name + ": " + file.read()[-1500:]
        return text

    def run(self, *command, **options):
        done = subprocess.run(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              timeout=120, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def stop(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [p for p in ("munged", "slurmctld", "slurmd", "srun") if not shutil.which(p)]
    if missing:
        pytest.skip("Slurm is not installed ({}): scripts/setup test".format(", ".join(missing)))
    # munged wants a path that only root and its user can write to, and a socket's path is short.
    folder = subprocess.run(["mktemp", "-d"] + ([] if os.geteuid() else ["-p", "/run"]), stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.strip()
    running = None
    try:
        running = Slurm(folder)
        yield running
    finally:
        if running:
            running.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def needs_query():
    if not os.path.exists(os.path.join(BUILD, "lib", "libtracesmith_query.so")):
        pytest.skip("a build without SQL")


def rows(trace, sql):
    out = subprocess.run([PROGRAM, "query", trace, sql, "--json"], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    return [list(row.values()) for row in json.loads(out)]


def test_srun_writes_one_trace_of_all_tasks(slurm, tmp_path, needs_query):
    trace = str(tmp_path / "job.sbt")
    done = slurm.run("srun", "-N2", "-n4", PROGRAM, "run", "-o", trace, "--", sys.executable, "-c", JOB)
    assert done.stderr.count("job.sbt: 4 tasks on") == 1, done.stderr  # the last one tells
    assert os.listdir(str(tmp_path)) == ["job.sbt"]
    assert rows(trace, "SELECT rank, world_size FROM processes ORDER BY rank") == [[r, 4] for r in range(4)]
    (job,), = rows(trace, "SELECT DISTINCT job FROM processes")
    assert job.isdigit() and rows(trace, "SELECT DISTINCT job_step FROM processes") == [["0"]]
    assert rows(trace, "SELECT rank, count(*) FROM steps GROUP BY rank ORDER BY rank") == [[r, 5] for r in range(4)]
    hosts = 2 if slurm.two_hosts else 1
    assert rows(trace, "SELECT count(DISTINCT node) FROM steps") == [[hosts]]
    # A node and its clock are described once, and its telemetry is recorded by one task.
    assert rows(trace, "SELECT count(*), count(DISTINCT node) FROM nodes") == [[hosts, hosts]]
    assert rows(trace, "SELECT count(*), count(DISTINCT node) FROM clocks") == [[hosts, hosts]]
    assert rows(trace, "SELECT * FROM losses") == []


def test_a_task_that_is_recorded_alone_gives_a_trace_that_says_so(slurm, tmp_path, needs_query):
    trace = str(tmp_path / "job.sbt")
    script = 'if [ "$SLURM_PROCID" = 1 ]; then exec "$@"; fi'
    done = slurm.run("srun", "-N2", "-n4", "sh", "-c", script, "sh", PROGRAM, "run", "-o", trace, "--", sys.executable, "-c", JOB)
    assert "3 of 4 tasks are not recorded, or not yet" in done.stderr, done.stderr
    assert rows(trace, "SELECT rank FROM processes") == [[1]]
    assert rows(trace, "SELECT cause, count FROM losses") == [["missing task", 3]]


def test_the_parts_of_a_task_that_was_killed_are_joined_by_hand(slurm, tmp_path, needs_query):
    trace, meeting = str(tmp_path / "job.sbt"), str(tmp_path / "go")
    # The recorder of task 0 is killed with its command; Slurm lets the others go on.
    srun = subprocess.Popen(["srun", "-N1", "-n2", "--kill-on-bad-exit=0", PROGRAM, "run", "-o", trace, "--", sys.executable, "-c", JOB, meeting],
                            env=slurm.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    parts = []

    def begun():
        parts[:] = [str(p) for p in tmp_path.glob("job.sbt.parts-*/0.recording")]
        return parts and all(os.path.exists(meeting + str(n)) for n in range(2)) and os.path.getsize(parts[0]) > 0

    eventually(begun, "both tasks record")
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/" + pid + "/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open("/proc/" + pid + "/comm") as file:
                name = file.read().strip()
        except (OSError, ValueError):
            continue
        if ("SLURM_CONF=" + slurm.configuration).encode() in environment and b"SLURM_PROCID=0" in environment and name == "tracesmith":
            os.kill(int(pid), 9)
    open(meeting, "w").close()
    error = srun.communicate(timeout=LIMIT_S)[1].decode()
    assert not os.path.exists(trace), error
    folder = os.path.dirname(parts[0])
    assert sorted(os.listdir(folder)) == ["0.recording", "1.sbt"]
    out = slurm.run(PROGRAM, "import", "-o", trace, folder).stdout
    assert "2 traces" in out
    assert [1] in rows(trace, "SELECT rank FROM processes WHERE rank = 1")


def test_cluster_record_takes_the_nodes_of_a_job_until_it_ends(slurm, tmp_path, needs_query):
    if not slurm.two_hosts:
        pytest.skip("only root can give the two nodes names of their own")
    rings, meeting, trace = str(tmp_path / "rings"), str(tmp_path / "go"), str(tmp_path / "job.sbt")
    os.mkdir(rings, 0o700)
    servers = []

    def serve(*command, **more):
        server = subprocess.Popen([PROGRAM, "cluster"] + list(command) + ["--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  universal_newlines=True, env=dict(slurm.environment, **more))
        servers.append(server)
        return json.loads(server.stdout.readline())["port"]

    try:
        port = serve("master", "--port", "0", "--http-port", "0", "--data-dir", str(tmp_path / "master"))
        master = "127.0.0.1:{}".format(port)
        for node in ("n1", "other"):
            serve("agent", "--port", "0", "--master", master, "--node-id", node, "--data-dir", str(tmp_path / node),
                  TRACESMITH_DIR=rings if node == "n1" else str(tmp_path / "none"))
        eventually(lambda: slurm.ask(PROGRAM, "cluster", "nodes", "--master", master).count("connected") >= 2,
                   lambda: slurm.ask(PROGRAM, "cluster", "nodes", "--master", master))
        job = subprocess.Popen(["srun", "-w", "n1", "-n1", PROGRAM, "run", "--flight", "10", "-o", str(tmp_path / "last.sbt"), "--", sys.executable, "-c",
                                JOB, meeting], env=dict(slurm.environment, TRACESMITH_DIR=rings), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: os.path.exists(meeting + "0"), "the job runs")
        number = slurm.ask("squeue", "-h", "-t", "running", "-o", "%A").split()[-1]
        listed = json.loads(slurm.run(PROGRAM, "ps", "--json").stdout)
        assert [number, "0"] in [[p["job"], p["job_step"]] for p in listed]
        record = subprocess.Popen([PROGRAM, "cluster", "record", "--slurm", number, "-o", trace, "--master", master], env=slurm.environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        eventually(lambda: "slurm-" + number in slurm.ask(PROGRAM, "cluster", "sessions", "--master", master), "the session records")
        open(meeting, "w").close()
        out, error = record.communicate(timeout=LIMIT_S)
        assert record.returncode == 0, out + error
        job.wait(LIMIT_S)
        assert rows(trace, "SELECT node FROM nodes ORDER BY node") == [["n1"]]
        unknown = subprocess.run([PROGRAM, "cluster", "record", "--slurm", "999999", "-o", trace, "--force", "--master", master],
                                 env=slurm.environment, stderr=subprocess.PIPE, universal_newlines=True)
        assert unknown.returncode == 1 and "job 999999 is not known to Slurm" in unknown.stderr
    finally:
        for server in reversed(servers):
            server.terminate()
            server.communicate()
