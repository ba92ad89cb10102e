"""Faults of memory and of torch.compile, each in a job of its own, and whether `analyze` names them with file and line.

memory_auto.py [FAULT...]: plain, leak, oom, oom_late, item, break, recompile; all without one. Each runs under `tracesmith run` (path in $TS, default
build/bin/tracesmith). Prints one JSON line a check, and exits with the number that failed.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FAULTS = ("plain", "leak", "oom", "oom_late", "item", "break", "recompile")
STEPS = {"plain": 2000, "leak": 2000, "break": 40, "recompile": 40}  # memory is asked about every tenth of a second


def train(fault):
    import torch

    torch.manual_seed(0)
    width = 2048
    model = torch.nn.Sequential(*[m for _ in range(8) for m in (torch.nn.Linear(width, width), torch.nn.GELU())]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kept = []

    def loss_of(x):
        out = model(x)
        if fault == "break":
            torch._dynamo.graph_break()  # BREAK
        return out.pow(2).mean()

    run = torch.compile(loss_of, dynamic=False) if fault in ("break", "recompile") else loss_of
    for i in range(STEPS.get(fault, 240)):
        rows = 64 + 16 * (i // 10) if fault == "recompile" else 64
        loss = run(torch.randn(rows, width, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if fault == "leak" and i >= 20:
            kept.append(torch.zeros(1 << 20, device="cuda"))  # LEAK
        if fault == "item":
            for _ in range(8):
                model(torch.randn(4096, width, device="cuda"))
            loss.item()  # ITEM
        if i == {"oom": 1, "oom_late": 30}.get(fault):
            free = torch.cuda.mem_get_info()[0]
            for _ in range(40):
                kept.append(torch.empty(free // 20, dtype=torch.uint8, device="cuda"))  # OOM


def line(marked):
    with open(os.path.abspath(__file__)) as file:
        return "memory_auto.py:%d" % next(i for i, text in enumerate(file, 1) if text.rstrip().endswith("# " + marked))


EXPECTED = {
    "leak": lambda: ["memory of ", "per step since step", " MB per step are kept from " + line("LEAK")],
    "oom": lambda: ["ran out of memory in step 2", " at " + line("OOM"), "the largest: ", " from " + line("OOM")],
    "oom_late": lambda: ["ran out of memory in step 31", " at " + line("OOM"), "the largest: ", " of tensors of shape ["],
    "item": lambda: ["hosts wait for the GPU in Tensor.item at " + line("ITEM")],
    "break": lambda: ["torch.compile broke the graph at " + line("BREAK")],
    "recompile": lambda: ["torch.compile recompiled memory_auto.py:", " loss_of ", "size"],
}


def main():
    faults = sys.argv[1:] or FAULTS
    ts = os.environ.get("TS", os.path.join(HERE, "../../../build/bin/tracesmith"))
    failed = 0
    for fault in faults:
        trace = os.path.join(tempfile.mkdtemp(prefix="memory_auto"), fault + ".sbt")
        job = subprocess.run([ts, "run", "--force", "-o", trace, "--", sys.executable, os.path.abspath(__file__), "--train", fault],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        done = subprocess.run([ts, "analyze", "--json", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        notes = json.loads(done.stdout).get("notes", []) if done.stdout.strip() else []
        if fault == "plain":  # nothing is to be found
            good = job.returncode == 0 and not [n for n in notes if "memory" in n or "torch.compile" in n or "hosts wait" in n]
            named = notes
        else:
            words = EXPECTED[fault]()
            named = [n for n in notes if all(word in n for word in words)]
            good = len(named) >= 1 and (job.returncode != 0) == fault.startswith("oom")
        failed += not good
        said = [text for text in job.stdout.splitlines() if "tracesmith: " in text]
        print(json.dumps({"fault": fault, "ok": good, "rc": job.returncode, "named": named[:2], "notes": None if good else notes,
                          "said": said[:5], "output": None if good else job.stdout[-800:], "errors": done.stderr[-300:]}), flush=True)
    return failed


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--train":
        train(sys.argv[2])
    else:
        sys.exit(main())
