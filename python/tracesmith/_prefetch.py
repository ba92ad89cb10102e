"""Fetches batches ahead of the training: as many as the waits of this rank ask for."""

import atexit
import collections
import threading
import time
import weakref
from typing import Any, Deque, Iterator, Optional, Tuple

from tracesmith._native import Error

WINDOW = 8  # batches between two decisions
MOST_WAIT = 0.02  # part of the time that may go into waiting for data


class Depth:
    """How many batches to fetch ahead. It grows while this rank waits for data, up to `most`."""

    def __init__(self, most: int) -> None:
        self.most, self.now = most, 0
        self._waits = self._times = 0.0
        self._batches = 0

    def waited(self, wait_s: float, time_s: float) -> None:
        """For a batch, in a time from the batch before that has the waiting in it."""
        self._waits += wait_s
        self._times += time_s
        self._batches += 1
        if self._batches < WINDOW:
            return
        if self._waits > MOST_WAIT * self._times and self.now < self.most:
            self.now += 1
        self._waits = self._times = 0.0
        self._batches = 0


class Prefetched:
    """A ``DataLoader`` whose batches a thread fetches ahead. It begins with none, and fetches one more ahead each time this
    rank has waited for data for more than 2 % of 8 batches, up to the sampler's `ahead`.

        sampler = balance.BatchSampler(dataset, total=256, ahead=4)
        loader = balance.Prefetched(DataLoader(dataset, batch_sampler=sampler), sampler)
    """

    def __init__(self, loader: Any, sampler: Any) -> None:
        workers = loader.num_workers * (loader.prefetch_factor or 0)
        if workers > sampler.ahead:
            raise Error("the workers of the DataLoader fetch {} batches ahead: give the sampler ahead={} or more".format(
                workers, workers))
        self.loader = loader
        self.depth = sampler.prefetch = Depth(sampler.ahead - workers)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        source = _Source(iter(self.loader), self.depth)
        got = None  # type: Optional[float]
        try:
            while True:
                asked = time.perf_counter()
                try:
                    batch = source.next()
                except StopIteration:
                    return
                before, got = got, time.perf_counter()
                if before is not None:  # the first batch of an epoch has the start of workers in it
                    self.depth.waited(got - asked, got - before)
                yield batch
        finally:
            source.close()


class _Source:
    """Batches in their order: fetched when they are asked for, or before, by a thread."""

    def __init__(self, batches: Iterator[Any], depth: Depth) -> None:
        self._batches, self._depth = batches, depth
        self._ready = collections.deque()  # type: Deque[Tuple[Any, Optional[BaseException]]]
        self._changed = threading.Condition()  # of _ready and _closed
        self._closed = False
        self._thread = None  # type: Optional[threading.Thread]

    def next(self) -> Any:
        if self._thread is None:
            if self._depth.now == 0:
                return next(self._batches)
            self._thread = threading.Thread(target=self._fetch, name="tracesmith-prefetch", daemon=True)
            self._thread.start()
            _open.add(self)
        with self._changed:
            self._changed.wait_for(lambda: bool(self._ready))
            batch, error = self._ready[0]
            if error is None:  # the end stays there
                self._ready.popleft()
            self._changed.notify_all()
        if error is not None:
            raise error
        return batch

    def _fetch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or len(self._ready) < self._depth.now)
                if self._closed:
                    return
            batch, error = None, None  # type: Any, Optional[BaseException]
            try:
                batch = next(self._batches)
            except BaseException as raised:  # also the end: it is raised where batches are asked for
                error = raised
            with self._changed:
                self._ready.append((batch, error))
                self._changed.notify_all()
            if error is not None:
                return

    def close(self, most_s: Optional[float] = None) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(most_s)  # the sampler may be used again only now


_open = weakref.WeakSet()  # type: weakref.WeakSet[_Source]  # those with a thread


@atexit.register
def _close() -> None:
    """A thread that comes back from torch while Python ends would end the program with SIGABRT."""
    for source in list(_open):
        source.close(2.0)
