"""Votes of ranks on several nodes, where some ranks have voted once more than others."""

import json
import subprocess
import sys

import pytest
from torch_jobs import environment, needs_torch

JOB = """
import json, os, sys
import torch.distributed as dist
from tracesmith._ranks import Job, Vote

class Follower:
    counts = []
    def due(self, step):
        return True
    def ballot(self, step):
        return [step, -step, 0, 0]
    def counted(self, step, least):
        self.counts.append([step, least])

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=2)
follower, vote = Follower(), Vote(2)
for step in range(1, 5 + (rank == int(os.environ["MORE"]))):
    vote.before(step, follower)
vote.level(Job(), follower)
for step in (20, 21):
    vote.before(step, follower)
dist.barrier()
print(json.dumps(follower.counts))
"""


@needs_torch
@pytest.mark.parametrize("more", [0, 1])
def test_a_vote_that_one_rank_has_not_cast_is_not_counted(tmp_path, more):
    ranks = [subprocess.Popen([sys.executable, "-c", JOB], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              env=environment(RANK=str(r), MORE=str(more), MEETING=str(tmp_path / "meeting"))) for r in range(2)]
    done = [rank.communicate(timeout=100) for rank in ranks]
    for rank, (_, err) in zip(ranks, done):
        assert rank.returncode == 0, err
    for out, _ in done:
        counts = [least for _, least in json.loads(out) if least]
        assert counts[-1] == [20, -20, 0, 0]  # both ranks said so
        assert [1, -1, 0, 0] in counts and [5, -5, 0, 0] not in counts
