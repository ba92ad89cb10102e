"""What programs log with TensorBoard and Weights & Biases, and checkpoints of torch.distributed.checkpoint.

These packages are not here: small ones of the same shape stand in for them.
"""

import sys

import pytest
from torch_jobs import Recorded, needs_torch

pytestmark = needs_torch

PACKAGES = {
    "tensorboardX/__init__.py": "from .writer import SummaryWriter\n",
    "tensorboardX/writer.py": """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None):
        self.last = float(scalar_value) if not isinstance(scalar_value, str) else None
""",
    "wandb/__init__.py": """
def init():
    from .sdk.wandb_run import Run
    global log
    run = Run()
    log = run.log
""",
    "wandb/sdk/__init__.py": "",
    "wandb/sdk/wandb_run.py": """
class Run:
    def log(self, data, step=None, commit=None):
        if "fails" in data:
            raise ValueError("the program's own")
""",
    "checkpoint/__init__.py": """
import torch

def save(state, path):
    for part in range(3):
        torch.save(state, path + str(part))
""",
    "job.py": """
import os, sys, threading
import numpy, torch, torch.distributed
from torch.utils.data import DataLoader

torch.distributed.__path__.append(os.path.dirname(os.path.abspath(__file__)))
import torch.distributed.checkpoint as checkpoint
import wandb
from tensorboardX import SummaryWriter

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
writer = SummaryWriter()
wandb.init()
for i, x in enumerate(DataLoader(torch.ones(5, 4), batch_size=1)):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    writer.add_scalar("loss", torch.tensor(i / 2), 1000 * i)
    writer.add_scalar(tag="train/lr", scalar_value=numpy.float32(0.25))
    writer.add_scalar("note", "no number")
    wandb.log({"grad_norm": i, "ready": True, "note": "no number", "_hidden": 1, "of both": torch.ones(2)})
    try:
        wandb.log({"fails": 1})
    except ValueError as error:
        assert str(error) == "the program's own"
    if i == 2:
        checkpoint.save({"x": torch.zeros(100000)}, sys.argv[1])
        thread = threading.Thread(target=torch.save, args=({"x": torch.zeros(100000)}, sys.argv[1]))
        thread.start()
        thread.join()
""",
}


@pytest.fixture
def job(tmp_path, needs_query):
    for name, text in PACKAGES.items():
        path = tmp_path / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Recorded(tmp_path, sys.executable, str(tmp_path / "packages" / "job.py"), str(tmp_path / "model.pt"))


def test_what_loggers_get_and_checkpoints_are_in_the_trace(job):
    assert "hook" not in job.err
    assert job.ask("SELECT step, loss, learning_rate, grad_norm FROM python.training_metrics ORDER BY step") == [
        [str(i), str(i / 2), "0.25", "%.1f" % i] for i in range(5)]
    names = {name for (name,) in job.ask("SELECT DISTINCT name FROM counters")}
    assert not names & {"note", "ready", "_hidden", "of both"}
    # One checkpoint in three files; what a thread writes keeps nobody waiting.
    assert len(job.ranges("checkpoint")) == 1
