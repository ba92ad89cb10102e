"""Timelines as SVG: a lane for each rank, at most one bar for each kind of work and pixel."""

import html
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from tracesmith._native import Error

if TYPE_CHECKING:
    from tracesmith.trace import Trace

_WIDTH, _LEFT, _LANE, _MOST_LANES = 960, 90, 22, 64
_COLORS = {"computation": "#4c78c8", "communication": "#d64545", "copy": "#d9a514"}
_KIND = "CASE WHEN type IN ('memcpy', 'memset') THEN 'copy' WHEN is_communication(name) THEN 'communication' ELSE 'computation' END"


def _window(trace: "Trace", step: Optional[int], start: Optional[int], end: Optional[int]) -> Tuple[int, int, str]:
    """From when to when on the reference clock, and what that is called."""
    if start is not None and end is not None:
        if end <= start:
            raise Error("end must be after start")
        return start, end, ""
    condition = "" if step is None else " AND step = {}".format(int(step))
    steps = trace.query(
        "SELECT step, min(reference_ts(node, ts)), max(reference_ts(node, ts_end)) FROM steps "
        "WHERE step IS NOT NULL AND ts_end IS NOT NULL{} GROUP BY step ORDER BY step".format(condition)
    ).rows()
    if steps:
        number, low, high = steps[len(steps) // 2]
        return low if start is None else start, high if end is None else end, "step {}".format(number)
    if step is not None:
        raise Error("the trace has no step {}".format(step))
    low, high = trace.query("SELECT min(reference_ts(node, ts)), max(reference_ts(node, ts_end)) FROM events").rows()[0]
    if low is None or high is None:
        raise Error("the trace has no events")
    return low if start is None else start, high if end is None else end, ""


def _bars(trace: "Trace", low: int, high: int, ranks: Optional[List[int]]) -> List[Tuple[Any, ...]]:
    """(rank, kind, start, end, name, count) on the reference clock. Clocks are taken as they are in the middle."""
    middle, pixel = (low + high) // 2, max(1, (high - low) // (_WIDTH - _LEFT))
    nodes = trace.query(
        "SELECT node, reference_ts(node, {0}) - {0} FROM (SELECT DISTINCT node FROM events)".format(middle)
    ).rows()
    only = "" if ranks is None else " AND rank IN ({})".format(", ".join(str(int(r)) for r in ranks) or "NULL")
    bars = []  # type: List[Tuple[Any, ...]]
    for node, offset in nodes:
        of = "node IS NULL" if node is None else "node = '{}'".format(node.replace("'", "''"))
        rows = trace.query(
            "SELECT rank, kind, min(ts), max(ts_end), any_value(name), count(*) FROM "
            "(SELECT rank, {kind} AS kind, ts, ts_end, name FROM events WHERE {of}{only} AND type IN ('kernel', 'memcpy', "
            "'memset', 'graph') AND ts < {high} AND ts_end > {low}) GROUP BY rank, kind, ts // {pixel}".format(
                kind=_KIND, of=of, only=only, low=low - (offset or 0), high=high - (offset or 0), pixel=pixel
            )
        )
        bars += [(rank, kind, ts + (offset or 0), end + (offset or 0), name, n) for rank, kind, ts, end, name, n in rows]
    return bars


def _time(ns: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return "{:.3g} {}".format(ns / size, unit)
    return "{:.0f} ns".format(ns)


def timeline_svg(
    trace: "Trace", step: Optional[int], ranks: Optional[List[int]], start: Optional[int], end: Optional[int]
) -> str:
    low, high, title = _window(trace, step, start, end)
    bars = _bars(trace, low, high, ranks)
    lanes = sorted({bar[0] for bar in bars}, key=lambda rank: (rank is None, rank))
    shown = lanes[:_MOST_LANES]
    place = {rank: 26 + i * _LANE for i, rank in enumerate(shown)}  # type: Dict[Optional[int], int]
    height = 26 + len(shown) * _LANE + 40
    scale = (_WIDTH - _LEFT - 10) / (high - low)
    out = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" width="{}" font-family="sans-serif" '
        'font-size="12"><rect width="100%" height="100%" fill="#fff"/>'.format(_WIDTH, height, _WIDTH)
    ]
    hidden = "; {} of {} ranks shown".format(len(shown), len(lanes)) if len(lanes) > len(shown) else ""
    out.append('<text x="{}" y="16">{}</text>'.format(_LEFT, html.escape(", ".join(filter(None, [title, _time(high - low)])) + hidden)))
    for rank in shown:
        name = "process" if rank is None else "rank {}".format(rank)
        out.append('<text x="{}" y="{}" text-anchor="end">{}</text>'.format(_LEFT - 8, place[rank] + 14, name))
        out.append(
            '<rect x="{}" y="{}" width="{}" height="{}" fill="#f1f3f7"/>'.format(
                _LEFT, place[rank], _WIDTH - _LEFT - 10, _LANE - 4
            )
        )
    order = list(_COLORS)
    for rank, kind, ts, ts_end, name, count in sorted(bars, key=lambda bar: order.index(bar[1])):
        if rank not in place:
            continue
        left, right = max(ts, low), min(ts_end, high)
        part = "" if kind == "computation" else ' fill-opacity="0.85"'
        what = name if count == 1 else "{} and {} more".format(name, count - 1)
        out.append(
            '<rect x="{:.2f}" y="{}" width="{:.2f}" height="{}" fill="{}"{}><title>{}: {}</title></rect>'.format(
                _LEFT + (left - low) * scale, place[rank], max(0.4, (right - left) * scale), _LANE - 4, _COLORS[kind], part,
                html.escape(str(what)[:160]), _time(ts_end - ts)
            )
        )
    x = _LEFT
    for kind, color in _COLORS.items():
        out.append('<rect x="{}" y="{}" width="10" height="10" fill="{}"/>'.format(x, height - 22, color))
        out.append('<text x="{}" y="{}">{}</text>'.format(x + 14, height - 13, kind))
        x += 130
    notes = html.escape("; ".join(trace.notes())[:90])
    out.append('<text x="{}" y="{}" text-anchor="end">{}</text>'.format(_WIDTH - 10, height - 13, notes))
    return "".join(out) + "</svg>"
