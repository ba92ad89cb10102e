// When the GPUs of a rank were not recorded: hatched, so that nobody takes it for idleness.

import { variable } from "../theme";
import type { TimelineGap } from "../model";
import type { TimelineInfo, Track } from "../types";

const known = new WeakMap<TimelineInfo, Map<string, TimelineGap[]>>();

/** Of one track, in order; only GPUs have any. */
export function gapsOf(info: TimelineInfo, track: Track): TimelineGap[] {
  if (track.kind !== "stream" && track.kind !== "gpu_ranges") return [];
  let byGroup = known.get(info);
  if (!byGroup) {
    known.set(info, (byGroup = new Map()));
    for (const g of info.gaps) {
      const list = byGroup.get(g.group);
      if (list) list.push(g);
      else byGroup.set(g.group, [g]);
    }
  }
  return byGroup.get(track.group) ?? [];
}

/** The first that ends after a time. */
function firstAfter(gaps: TimelineGap[], t: number): number {
  let low = 0;
  let high = gaps.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (gaps[middle].to <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function gapAt(info: TimelineInfo, track: Track, t: number): TimelineGap | null {
  const gaps = gapsOf(info, track);
  const gap = gaps[firstAfter(gaps, t)];
  return gap && gap.from <= t ? gap : null;
}

let pattern: { color: string; made: CanvasPattern | null } | null = null;

function hatch(g: CanvasRenderingContext2D, color: string): CanvasPattern | null {
  if (pattern?.color === color) return pattern.made;
  const size = 6;
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const d = tile.getContext("2d")!;
  d.strokeStyle = color;
  d.lineWidth = 1;
  for (const shift of [-size, 0, size]) {
    d.moveTo(shift, size);
    d.lineTo(shift + size, 0);
  }
  d.stroke();
  pattern = { color, made: g.createPattern(tile, "repeat") };
  return pattern.made;
}

/** Those of a lane; `from`, `to`: the time of the window as the track has it. Bars are drawn over them. */
export function drawGaps(g: CanvasRenderingContext2D, gaps: TimelineGap[], from: number, to: number, width: number, y: number, height: number, unit: number): void {
  if (!gaps.length) return;
  const fill = hatch(g, variable("--line-strong"));
  if (!fill) return;
  const scale = width / (to - from);
  let drawn = 0;
  for (let i = firstAfter(gaps, from); i < gaps.length && gaps[i].from < to; i++) {
    const left = Math.max(drawn, (gaps[i].from - from) * scale);
    const right = Math.min(width, (gaps[i].to - from) * scale);
    if (right - left < 1) continue;
    g.fillStyle = fill;
    g.fillRect(left, y, right - left, height);
    drawn = right;
    const text = "not recorded";
    if (height < 11 * unit) continue;
    const long = g.measureText(text).width;
    if (right - left < long + 12 * unit) continue;
    const middle = (left + right - long) / 2;
    g.fillStyle = variable("--panel");
    g.fillRect(middle - 3 * unit, y, long + 6 * unit, Math.min(height, 13 * unit));
    g.fillStyle = variable("--ink-faint");
    g.fillText(text, middle, y + Math.min(height, 13 * unit) / 2);
  }
}
