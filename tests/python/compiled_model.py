"""A small model that torch.compile compiles: compiled_model.py KIND. Prints the loss of each step, and last what torch's own counter says."""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

KIND = sys.argv[1]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(32), Attention()
        self.mlp = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 32))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        if KIND == "break":
            torch._dynamo.graph_break()
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.conv = nn.Embedding(50, 32), nn.Conv1d(32, 32, 3, padding=1)
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(2)), nn.Linear(32, 50)

    def forward(self, x):
        x = self.conv(self.embed(x).transpose(1, 2)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


torch.manual_seed(0)
torch.set_num_threads(1)
model = Model()
run = {"blocks": lambda: model, "backend": lambda: torch.compile(model, backend="aot_eager"), "plain": lambda: torch.compile(model, backend="eager"),
       "dynamic": lambda: torch.compile(model, dynamic=True)}.get(KIND, lambda: torch.compile(model))()
if KIND == "blocks":
    for block in model.blocks:
        block.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def step(run, x):
    with torch.autocast("cpu", torch.bfloat16, enabled=KIND == "amp"):
        out = run(x)
        loss = F.cross_entropy(out.float().flatten(0, 1), x.flatten())
        if KIND == "outside":  # a product that nothing compiles
            loss = loss + (out.flatten(1) @ out.flatten(1).T).mean()
    loss.backward()
    return loss


for x in torch.utils.data.DataLoader([torch.randint(0, 50, (8,)) for _ in range(32)], batch_size=4):
    print(step(run, x).item().hex())
    optimizer.step()
    optimizer.zero_grad()
with FlopCounterMode(display=False) as counter, torch._dynamo.config.patch(disable=True):
    step(model, x)
print(counter.get_total_flops())
