"""Several process groups: two of all ranks and one of two ranks used in turn on one stream; and one that is destroyed and made again every 8 steps."""
import torch
import torch.distributed as dist

from common import main

WIDTH, LAYERS, TOKENS = 1024, 6, 2048


class Groups:
    def __init__(self, job):
        self.job = job
        self.size = 1 << (20 if job.cuda else 12)
        width, tokens = (WIDTH, TOKENS) if job.cuda else (64, 64)
        self.x = job.random(tokens, width)
        self.w = [job.random(width, width) * 0.02 for _ in range(LAYERS)]
        self.gradient, self.part = job.random(2 * self.size), job.random(self.size // 4)
        self.whole = [torch.empty_like(self.part) for _ in range(job.ranks)]
        self.half = job.random(self.size)
        self.groups()

    def groups(self):
        self.first, self.second = dist.new_group(), dist.new_group()
        pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        self.pair = pairs[self.job.rank // 2]
        self.pair_name = f"pair{self.job.rank // 2}"

    def compute(self):
        x = self.x
        for i, w in enumerate(self.w):
            if i == LAYERS // 2:
                self.job.in_forward()
            x = torch.tanh(x @ w)
        return x

    def step(self):
        # Calls that do not ask for async_op run on the current stream: one stream for three communicators.
        x = self.compute()
        dist.all_reduce(self.gradient, group=self.first)
        self.job.called("all_reduce", "first")
        dist.all_gather(self.whole, self.part, group=self.second)
        self.job.called("all_gather", "second")
        dist.all_reduce(self.half, group=self.pair)
        self.job.called("all_reduce", self.pair_name)
        dist.all_reduce(self.gradient, group=self.second)
        self.job.called("all_reduce", "second")
        self.gradient.mul_(1 / 16)
        self.half.mul_(0.5)
        return x.mean()


class Recreate(Groups):
    def groups(self):
        self.made, self.done = 0, 0
        self.group = dist.new_group()

    def step(self):
        if self.done % 8 == 7:
            dist.destroy_process_group(self.group)
            self.group = dist.new_group()
            self.made += 1
        self.done += 1
        x = self.compute()
        for _ in range(3):
            dist.all_reduce(self.gradient, group=self.group)
            self.job.called("all_reduce", f"group{self.made}")
            self.gradient.mul_(0.25)
        return x.mean()


if __name__ == "__main__":
    main({"groups": Groups, "recreate": Recreate})
