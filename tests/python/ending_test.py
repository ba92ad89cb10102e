"""How a balanced job ends: without destroy_process_group(), threads of gloo's are still there."""

import subprocess
import sys

# The thread stands for one of gloo's. It lets go of the function only after the program has begun to end.
HELD = """
import atexit, threading, time
from tracesmith import balance

def ended():
    pass

def holds(function):
    begun.wait()
    time.sleep(0.2)
    print("let go", flush=True)

begun = threading.Event()
atexit.register(begun.set)  # runs before what was registered earlier
balance._open.add(ended)
threading.Thread(target=holds, args=(ended,), daemon=True).start()
del ended
"""


def test_a_program_ends_when_threads_of_gloo_need_python_no_more():
    done = subprocess.run([sys.executable, "-c", HELD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "let go\n"), done.stderr


def test_a_thread_that_never_lets_go_keeps_no_program_for_long():
    done = subprocess.run([sys.executable, "-c", HELD.replace("time.sleep(0.2)", "time.sleep(60)")],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


# An iterator that is still there when the program ends, with a thread that is fetching.
FETCHING = """
import threading, time
from tracesmith import balance
from tracesmith._prefetch import Depth

class Loader:
    num_workers, prefetch_factor = 0, None
    def __len__(self):
        return 9
    def __iter__(self):
        for i in range(9):
            if i == 2:
                fetching.set()
                time.sleep(0.2)
                print("fetched", flush=True)
            yield i

class Sampler:
    ahead = 4

fetching = threading.Event()
loader = balance.Prefetched(Loader(), Sampler())
loader.depth.now = 2
batches = iter(loader)
next(batches)
fetching.wait()
"""


def test_a_thread_that_fetches_is_waited_for():
    done = subprocess.run([sys.executable, "-c", FETCHING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "fetched\n"), done.stderr
