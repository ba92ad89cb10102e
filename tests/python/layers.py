"""A small GPT on the CPU, for the tests of module ranges and FLOPs: layers.py [STEPS]. Prints its losses, exactly.

SLOW is the rank whose blocks.2.attn takes longer; ODD adds modules that are hard to hook; MODE puts a dispatch mode of its
own on in step 3, while operations are counted. As one of several ranks (RANK, WORLD_SIZE and MEETING are set) it is DDP
over gloo.
"""
import os
import sys
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils.data import DataLoader, Dataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
RANK, SLOW, ODD = int(os.environ.get("RANK", 0)), int(os.environ.get("SLOW", -1)), "ODD" in os.environ
WIDTH, HEADS, LAYERS, LENGTH, BATCH, VOCABULARY = 32, 4, 4, 8, 2, 50


class Tokens(Dataset):
    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, i):
        return torch.randint(0, VOCABULARY, (LENGTH + 1,), generator=torch.Generator().manual_seed(i))


class Attention(torch.nn.Module):
    def __init__(self, slow):
        super().__init__()
        self.slow = slow
        self.qkv, self.proj = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        if self.slow:
            end = time.perf_counter() + 0.02
            while time.perf_counter() < end:
                pass
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))


class Block(torch.nn.Module):
    def __init__(self, slow):
        super().__init__()
        self.ln1, self.ln2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.attn = Attention(slow)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class Odd(torch.nn.Module):
    """Names, results and errors that modules may have."""

    class Returns(torch.nn.Module):
        def forward(self, *, x):
            return {"x": x, "also": [x], "number": 3}

    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError

    def __init__(self):
        super().__init__()
        self.add_module("a (b) é", self.Returns())
        self.add_module("fails", self.Fails())
        self.same = torch.nn.Identity()
        self.again = self.same
        self.scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH)))
        self.missing = None

    def forward(self, x):
        try:
            self.fails(x)
        except ValueError:
            pass
        return self.scripted(self.again(self._modules["a (b) é"](x=x)["x"]))


class Gpt(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(Block(i == 2 and RANK == SLOW) for i in range(LAYERS))
        self.odd = Odd() if ODD else None
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x if self.odd is None else self.odd(x))


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        return function(*arguments, **(named or {}))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Gpt()
    if "MEETING" in os.environ:
        import torch.distributed as dist

        dist.init_process_group("gloo", init_method="file://" + os.environ["MEETING"], rank=RANK,
                                world_size=int(os.environ["WORLD_SIZE"]))
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    mode = Mode()
    for tokens in DataLoader(Tokens(), batch_size=BATCH):
        if "MODE" in os.environ and len(losses) == 3:
            mode.__enter__()
        out = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(out.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert _get_current_dispatch_mode() is (mode if "MODE" in os.environ else None)
    left = [n for n, m in model.named_modules() if m._forward_hooks or m._forward_pre_hooks]
    assert not left, left
    if RANK == 0:
        print(" ".join(map(float.hex, losses)))


if __name__ == "__main__":
    main()
