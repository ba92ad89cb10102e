"""Fetching ahead: how deep, in order, and what happens to errors and to epochs that are left early."""

import itertools
import threading

import pytest
from torch_jobs import needs_torch

import tracesmith
from tracesmith import balance
from tracesmith._prefetch import Depth


class Loader:
    """The part of a DataLoader that is needed here. `fetched` are the batches so far."""

    num_workers = 0
    prefetch_factor = None

    def __init__(self, sampler, fail_at=None):
        self.sampler, self.fail_at = sampler, fail_at
        self.fetched, self.changed = 0, threading.Condition()

    def __len__(self):
        return len(self.sampler)

    def __iter__(self):
        for indices in self.sampler:
            if self.fetched == self.fail_at:
                raise ValueError("sample {} is broken".format(indices[0]))
            with self.changed:
                self.fetched += 1
                self.changed.notify_all()
            yield indices

    def wait_for(self, batches):
        with self.changed:
            assert self.changed.wait_for(lambda: self.fetched >= batches, timeout=60), self.fetched


def sampler(ahead=3, total=4):
    return balance.BatchSampler(range(40), total=total, shuffle=False, ahead=ahead)


def test_it_fetches_more_ahead_while_the_rank_waits():
    depth = Depth(2)
    for _ in range(8):
        depth.waited(0.001, 0.1)  # 1 %
    assert depth.now == 0
    for expected in (1, 2, 2):
        for _ in range(8):
            depth.waited(0.01, 0.1)
        assert depth.now == expected
    for _ in range(80):
        depth.waited(0.0, 0.1)
    assert depth.now == 2


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_batches_come_in_their_order(depth):
    own = sampler()
    loader = balance.Prefetched(Loader(own), own)
    loader.depth.now = loader.depth.most = depth
    plain = list(sampler())
    for _ in range(2):
        assert list(loader) == plain
    assert len(loader) == len(plain) == 10


def test_a_thread_fetches_so_many_ahead_and_no_more():
    own = sampler()
    inner = Loader(own)
    loader = balance.Prefetched(inner, own)
    loader.depth.now = loader.depth.most = 2
    for i, _ in enumerate(loader):
        inner.wait_for(min(i + 1 + 2, 10))
        assert inner.fetched <= i + 1 + 2
        own.trained()
        assert own.now.prefetch == 2


def test_an_error_comes_where_the_batch_would_have():
    own = sampler()
    loader = balance.Prefetched(Loader(own, fail_at=5), own)
    loader.depth.now = 2
    got = []
    with pytest.raises(ValueError, match="sample 20 is broken"):
        for batch in loader:
            got.append(batch)
    assert len(got) == 5


def test_ranks_go_on_with_the_same_step_after_an_epoch_that_was_left_early():
    """Whatever each of them had fetched."""
    numbers = []
    for depth in (0, 1, 3):
        own = sampler()
        loader = balance.Prefetched(Loader(own), own)
        loader.depth.now = loader.depth.most = depth
        for stop in (2, 4, 0):
            for i, _ in enumerate(loader):
                if i == stop:
                    break
                own.trained()
        whole = []
        for _ in loader:
            whole.append(own.trained().number)
        assert whole == list(range(whole[0], whole[0] + 10))
        numbers.append(whole[0])
    assert len(set(numbers)) == 1


def test_no_threads_are_left():
    own = sampler()
    loader = balance.Prefetched(Loader(own), own)
    loader.depth.now = 3
    for _ in itertools.islice(loader, 2):
        pass
    list(loader)
    assert not [t for t in threading.enumerate() if t.name == "tracesmith-prefetch"]


@needs_torch
def test_a_dataloader_with_workers_needs_room_for_its_own():
    from torch.utils.data import DataLoader

    own = sampler(ahead=3)
    with pytest.raises(tracesmith.Error, match="fetch 4 batches ahead: give the sampler ahead=4 or more"):
        balance.Prefetched(DataLoader(range(40), batch_sampler=own, num_workers=2, prefetch_factor=2), own)
    loader = balance.Prefetched(DataLoader(range(40), batch_sampler=own), own)
    loader.depth.now = 2
    assert [batch.tolist() for batch in loader] == list(sampler())


def test_the_plan_says_for_which_ranks_the_others_wait(tmp_path):
    path = str(tmp_path / "page")
    coordinator = balance.BalanceCoordinator(path=path, balancer={"ranks": 3, "total": 96, "most_batch": [20, 96, 96]})
    coordinator.create()
    ranks = [balance.BalanceRank(path=path, rank=r) for r in range(3)]
    for rank in ranks:
        rank.open()
    seen = []
    for step in range(20):
        coordinator.turn()
        plans = [rank.begin(step, 96) for rank in ranks]
        seen.append([balance.Step(step, plans[0], r, 0).priority for r in range(3)])
        for rank, own, sample_s in zip(ranks, plans[0].ranks, (0.01, 0.01, 0.02)):
            rank.report(step, own.batch, sample_s * own.batch, 0.0)
    assert seen[0] == [0, 0, 0]  # nothing is measured yet
    assert seen[-1] == [0, 1, 1]  # the memory of rank 0 is full, so it waits
