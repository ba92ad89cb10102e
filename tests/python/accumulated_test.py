"""Batches in micro-batches, and gradients exchanged in a smaller type: the same training."""

import json
import os
import subprocess
import sys

import pytest
from torch_jobs import environment, needs_torch

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accumulated.py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("accumulated")
    ranks = {mode: [subprocess.Popen([sys.executable, JOB, mode], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                                     env=environment(RANK=str(r), WORLD_SIZE="2", MEETING=str(folder / mode))) for r in range(2)]
             for mode in ("whole", "parts", "half")}
    found = {}
    for mode, of in ranks.items():
        done = [rank.communicate(timeout=100) for rank in of]
        for rank, (_, err) in zip(of, done):
            assert rank.returncode == 0, err
        found[mode] = [json.loads(out) for out, _ in done]
    return found


@needs_torch
def test_each_rank_trains_its_batch_in_parts(runs):
    assert [r["sizes"] for r in runs["whole"]] == [[6] * 5, [18] * 5]
    assert [r["sizes"] for r in runs["parts"]] == [[3] * 10, [3] * 30]


@needs_torch
def test_parts_change_neither_loss_nor_parameters(runs):
    for whole, parts in zip(runs["whole"], runs["parts"]):
        assert parts["losses"] == pytest.approx(whole["losses"], rel=1e-12)
        assert parts["parameters"] == pytest.approx(whole["parameters"], rel=1e-12)
    assert runs["whole"][0]["losses"][-1] < runs["whole"][0]["losses"][0]


@needs_torch
def test_gradients_exchanged_in_a_smaller_type_are_rounded(runs):
    for whole, half in zip(runs["whole"], runs["half"]):
        assert half["losses"] == pytest.approx(whole["losses"], rel=1e-2)
        assert half["losses"] != whole["losses"]
