"""A rank of a real pipeline over gloo on the CPU: pipelined.py MODE STEPS. RANK, WORLD_SIZE and MEETING are set.

MODE: fixed, the division never changes; balanced; dry, plans are only told. A layer takes a rank SECONDS[rank] of the wall
clock in each pass, so ranks that share cores do not slow each other down. Printed is a line of JSON.
"""
import json
import logging
import os
import sys
import time

import torch
import torch.distributed as dist

from tracesmith import balance

SECONDS = (0.002, 0.002, 0.012)
LAYERS = 9


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8).double()
        self.norm = torch.nn.BatchNorm1d(8).double()  # has buffers

    def forward(self, x):
        time.sleep(SECONDS[int(os.environ["RANK"])])
        return torch.tanh(self.norm(self.linear(x)))


def main():
    mode, steps = sys.argv[1], int(sys.argv[2])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("tracesmith.balance").setLevel(logging.INFO)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=rank, world_size=ranks)
    model = torch.nn.Sequential(*[Layer() for _ in range(LAYERS)])
    decay = [p for name, p in model.named_parameters() if name.endswith("weight")]
    others = [p for name, p in model.named_parameters() if not name.endswith("weight")]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}], lr=0.01)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
    pipeline = balance.Pipeline(model, optimizer, torch.nn.functional.mse_loss, micro_batches=4, every=3,
                                horizon_steps=0 if mode == "fixed" else 1000, dry_run=mode != "balanced",
                                speeds=json.loads(os.environ.get("SPEEDS", "[]")))
    losses = []
    for step in range(steps):
        x = torch.sin(torch.arange(14 * 8, dtype=torch.double).reshape(14, 8) + step)
        loss = pipeline.step(x, torch.cos(x))
        schedule.step()
        if loss is not None:
            losses.append(loss.item())
    held = sorted(i for i, layer in enumerate(model) if next(layer.parameters()).device.type != "meta")
    print(json.dumps({"losses": losses, "held": held, "parameters": sum(len(g["params"]) for g in optimizer.param_groups),
                      "states": len(optimizer.state), **pipeline.state()}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
