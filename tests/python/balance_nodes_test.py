"""Balancing of a real DDP job over gloo whose ranks are on two nodes: two agents with a folder of rings each, and a master.
What ranks measure is given, so nothing depends on how busy the machine is."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from balance_test import JOB
from torch_jobs import environment, needs_torch

from tracesmith import _places

RANKS, TOTAL = 4, 24
pytestmark = needs_torch


def until(what, deadline_s=120):
    """What it gives, as soon as that is something."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.02)
    raise AssertionError("it did not happen within {} s".format(deadline_s))


class Cluster:
    """A master, two agents, and a job with ranks 0 and 1 on one node and 2 and 3 on the other."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}
        self.port = "0"
        for node in "ab":
            (folder / node).mkdir(mode=0o700)
        self.speeds([0.01, 0.01, 0.01, 0.03])

    def start(self, name, *command, **env):
        out = open(str(self.folder / (name + ".out")), "a")
        err = open(str(self.folder / (name + ".err")), "a")
        self.processes[name] = subprocess.Popen(command, stdout=out, stderr=err, env=environment(**env))

    def text(self, name):
        return (self.folder / name).read_text() if (self.folder / name).exists() else ""

    def master(self):
        (self.folder / "master.out").write_text("")
        self.start("master", _places.command(), "cluster", "master", "--port", self.port, "--http-port", "0", "--json", "--data-dir",
                   str(self.folder / "master"))
        self.port = str(json.loads(until(lambda: self.text("master.out").strip()))["port"])

    def agent(self, node):
        self.start("agent-" + node, _places.command(), "cluster", "agent", "--port", "0", "--node-id", node, "--master",
                   "127.0.0.1:" + self.port, "--data-dir", str(self.folder / ("agent-" + node)), TRACESMITH_DIR=str(self.folder / node))

    def kill(self, name):
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def speeds(self, seconds):
        (self.folder / "speeds.new").write_text(json.dumps(seconds))
        os.replace(str(self.folder / "speeds.new"), str(self.folder / "speeds"))

    def train(self, **env):
        for rank in range(RANKS):
            self.start("rank-{}".format(rank), sys.executable, JOB, "balanced", "100000", RANK=str(rank), WORLD_SIZE=str(RANKS),
                       MEETING=str(self.folder / "meeting"), SPEEDS=str(self.folder / "speeds"), LOG=str(self.folder / "log"),
                       STOP=str(self.folder / "stop"), TRACESMITH_DIR=str(self.folder / "ab"[rank // 2]), **env)

    def steps(self, rank=0):
        """Version and batch of each step that the rank has trained."""
        lines = self.text("log.{}".format(rank)).split("\n")[:-1]
        return [tuple(int(word) for word in line.split()) for line in lines]

    def version(self):
        for name, process in self.processes.items():
            assert process.poll() is None, name + ": " + self.text(name + ".err")
        steps = self.steps()
        return steps[-1][0] if steps else 0

    def goes_on(self, steps=30):
        """The version after so many more steps."""
        now = len(self.steps())
        until(lambda: self.version() >= 0 and len(self.steps()) >= now + steps)
        return self.version()

    def plans(self):
        done = subprocess.run([_places.command(), "cluster", "plans", "--json", "--master", "127.0.0.1:" + self.port],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60, env=environment())
        return json.loads(done.stdout)["jobs"] if done.returncode == 0 else []

    def end(self):
        """What each rank printed."""
        (self.folder / "stop").write_text("")
        for rank in range(RANKS):
            name = "rank-{}".format(rank)
            assert self.processes.pop(name).wait(60) == 0, self.text(name + ".err")
        return [json.loads(self.text("rank-{}.out".format(rank))) for rank in range(RANKS)]

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.close()


def check(ranks, uniform_folder):
    """All ranks changed at the same steps, trained all samples of each step, and what the uniform job learns."""
    versions = [[step["version"] for step in rank["trained"]] for rank in ranks]
    assert all(of_rank == versions[0] for of_rank in versions)
    samples = [sum(len(rank["trained"][step]["samples"]) for rank in ranks) for step in range(len(versions[0]))]
    assert samples == [12 if step % 5 == 4 else TOTAL for step in range(len(samples))]
    steps = min(len(samples), 400)
    uniform = [subprocess.Popen([sys.executable, JOB, "uniform", str(steps)], stdout=subprocess.PIPE, universal_newlines=True,
                                env=environment(RANK=str(r), WORLD_SIZE=str(RANKS), MEETING=str(uniform_folder / "uniform"),
                                                SPEEDS="none"))
               for r in range(RANKS)]
    losses = [json.loads(rank.communicate(timeout=100)[0])["losses"] for rank in uniform][0]
    assert ranks[0]["losses"][:steps] == pytest.approx(losses, rel=1e-7, abs=1e-12)
    return versions[0]


def spoil(folder):
    """Files that look like pages of plans and are none."""
    name = lambda what: str(folder / ("tracesmith-plan-" + what))  # noqa: E731
    os.mkfifo(name("pipe"))
    os.symlink("/dev/zero", name("link"))
    for what, size in (("empty", 0), ("sparse", 1 << 30)):
        with open(name(what), "wb") as file:
            file.truncate(size)
    (folder / "tracesmith-plan-garbage").write_bytes(b"TSPLAN02" + os.urandom(5000))


def test_a_job_on_two_nodes_survives_its_master_and_its_agents(cluster):
    spoil(cluster.folder / "a")
    cluster.master()
    cluster.agent("a")
    cluster.agent("b")
    cluster.train()
    until(lambda: cluster.version() >= 2)
    assert cluster.steps()[-1][1] > 0
    cluster.kill("master")
    before = cluster.goes_on(20)  # a plan that all pages had already is voted on once more
    assert cluster.goes_on() == before  # the last plan stays in force
    cluster.speeds([0.03, 0.01, 0.01, 0.01])
    assert cluster.goes_on() == before
    cluster.master()  # it learns the plan in force from the pages, and goes on
    until(lambda: cluster.version() > before)
    until(lambda: any(job["plan"]["version"] == cluster.version() and not job["next"] for job in cluster.plans()))
    cluster.kill("agent-b")
    cluster.speeds([0.01, 0.03, 0.01, 0.01])
    before = cluster.goes_on()
    assert cluster.goes_on() == before  # a plan that one node does not get is followed by none
    cluster.agent("b")
    until(lambda: cluster.version() > before)
    ranks = cluster.end()
    versions = check(ranks, cluster.folder)
    assert "Plan 2 is in force from step {}: Rank 3 needs".format(versions.index(2)) in cluster.text("rank-0.err")
    # The job's own pages are gone; what was no page is still there.
    assert not [name for node in "ab" for name in os.listdir(str(cluster.folder / node)) if name.count("-") > 2]
    assert len(os.listdir(str(cluster.folder / "a"))) >= 5


def test_ranks_that_fetch_ahead_change_at_the_same_step(cluster):
    cluster.master()
    cluster.agent("a")
    cluster.agent("b")
    cluster.train(WORKERS="1")
    until(lambda: cluster.version() >= 2)
    check(cluster.end(), cluster.folder)


def test_ranks_that_leave_epochs_early_change_at_the_same_step(cluster):
    cluster.master()
    cluster.agent("a")
    cluster.agent("b")
    cluster.train(WORKERS="1", LEAVE="2")
    until(lambda: cluster.version() >= 2)
    cluster.goes_on()
    ranks = cluster.end()
    versions = [[step["version"] for step in rank["trained"]] for rank in ranks]
    assert all(of_rank == versions[0] for of_rank in versions)
    assert {sum(len(rank["trained"][step]["samples"]) for rank in ranks) for step in range(len(versions[0]))} == {TOTAL}


def test_without_agents_the_job_is_uniform_and_says_so(cluster):
    cluster.train()
    until(lambda: "no plans reach this node: start `tracesmith cluster agent` on it" in cluster.text("rank-0.err"))
    until(lambda: "no plans reach this node" in cluster.text("rank-2.err"))
    ranks = cluster.end()
    assert all(step["version"] == 1 for rank in ranks for step in rank["trained"])
    assert {len(rank["trained"][0]["samples"]) for rank in ranks} == {6}
    assert "no plans reach" not in cluster.text("rank-1.err")
