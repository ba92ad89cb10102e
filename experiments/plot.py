#!/usr/bin/env python3
"""Draws results of balance_gpu.py: plot.py FILE.json PICTURE.svg [--ablations]

Above: throughput of each model as a multiple of the uniform split. Below: the time of each step, balanced, with the uniform split
as a line. With --ablations, the runs in bf16, with accumulation and with compressed gradients.
"""
import json
import sys
from xml.sax.saxutils import escape

NAMES = {"gpt2-tiny": "GPT-2 tiny", "resnet": "ResNet-50", "bert": "BERT-base"}
COLOURS = {"uniform": "#9aa5b1", "best static": "#e0a030", "balanced": "#2f7ed8"}
WIDTH, PANEL, TOP, LEFT = 300, 170, 60, 52


def text(x, y, words, size=12, anchor="middle", weight="normal"):
    return '<text x="%.1f" y="%.1f" font-size="%d" text-anchor="%s" font-weight="%s" fill="#24292f">%s</text>' % (
        x, y, size, anchor, weight, escape(words))


def box(x, y, width, height, colour):
    return '<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>' % (x, y, width, height, colour)


def title(result):
    name = NAMES.get(result["model"], result["model"]) + (", " + result["ablation"] if result["ablation"] else "")
    return name + ", shares " + "/".join("%g" % s for s in result["shares"])


def speeds(result):
    modes = {name: m["samples_per_s"] for name, m in result["modes"].items()}
    found = {"uniform": modes["uniform"], "balanced": modes["balanced"]}
    statics = [v for name, v in modes.items() if name.startswith("static")]
    if not statics and result["static_first_round_ms"]:
        statics = [1000 * result["total"] / min(result["static_first_round_ms"].values())]
    if statics:
        found["best static"] = max(statics)
    return {name: found[name] for name in COLOURS if name in found}


def bars(result, x, most):
    """Throughput; the scale ends at `most` times the uniform split."""
    out, found = [text(x + WIDTH / 2, TOP - 14, title(result), 13, weight="bold")], speeds(result)
    wide = (WIDTH - LEFT - 20) / 3
    for i, (name, value) in enumerate(found.items()):
        ratio = value / found["uniform"]
        high = PANEL * ratio / most
        left = x + LEFT + i * wide
        out += [box(left + 8, TOP + PANEL - high, wide - 16, high, COLOURS[name]),
                text(left + wide / 2, TOP + PANEL - high - 5, "%.2f ×" % ratio),
                text(left + wide / 2, TOP + PANEL + 15, name, 11), text(left + wide / 2, TOP + PANEL + 29, "%.0f/s" % value, 10)]
    return out


def steps(result, x):
    balanced = result["first_balanced"]["steps_ms"]
    uniform = result["modes"]["uniform"]["step_ms"]
    usual = sorted(balanced)[-max(2, len(balanced) // 10)]
    most = 1.15 * max(uniform, usual)
    top, wide = TOP + PANEL + 60, (WIDTH - LEFT - 20) / len(balanced)
    at = lambda ms: top + PANEL * (1 - min(ms, most) / most)  # noqa: E731
    out = [text(x + LEFT + (WIDTH - LEFT - 20) / 2, top + PANEL + 16, "step", 11)]
    for ms in (0, uniform):
        out.append(text(x + LEFT - 6, at(ms) + 4, "%.0f ms" % ms, 10, "end"))
    out += [box(x + LEFT + i * wide, at(ms), max(1, wide - 1), top + PANEL - at(ms), COLOURS["balanced"]) for i, ms in enumerate(balanced)]
    out.append('<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="%s" stroke-width="2"/>' % (
        x + LEFT, x + WIDTH - 20, at(uniform), at(uniform), "#57606a"))
    out.append(text(x + WIDTH - 20, at(uniform) - 5, "uniform", 11, "end"))
    return out


def main():
    files = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(files) != 2:
        sys.exit("usage: plot.py FILE.json PICTURE.svg [--ablations]")
    with open(files[0]) as f:
        results = [json.loads(line) for line in f]
    results = [r for r in results if bool(r["ablation"]) == ("--ablations" in sys.argv)]
    if not results:
        sys.exit("plot.py: {} has no such results".format(files[0]))
    most = 1.15 * max(max(s.values()) / s["uniform"] for s in map(speeds, results))
    parts = []
    for i, result in enumerate(results):
        parts += bars(result, i * WIDTH, most) + steps(result, i * WIDTH)
    width, height = WIDTH * len(results), TOP + 2 * PANEL + 90
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif">' % (
        width, height, width, height)
    with open(files[1], "w") as f:
        f.write("\n".join([head, box(0, 0, width, height, "#ffffff"), text(14, 22, "Throughput as a multiple of the uniform split, and the time of each step",
                                                                          14, "start", "bold")] + parts + ["</svg>", ""]))


if __name__ == "__main__":
    main()
