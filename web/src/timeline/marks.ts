// What lies over the tracks: the selection, arrows from a launch to its kernels, a collective joined across its ranks.

import { communication, culprit } from "../color";
import { duration } from "../format";
import { variable } from "../theme";
import { topOf } from "./layout";
import type { Scene } from "./model";

type X = (t: number) => number;

interface Place {
  top: number;
  height: number;
  /** Of its rank: see Lane. */
  offset: number;
}

/** Where an event of a track is seen: its level of the lane, or the row of its rank or node when that is closed. */
function place(scene: Scene, track: number, depth: number | null): Place | null {
  const at = scene.layout.where.get(track);
  if (!at) return null;
  const top = topOf(at.row, scene.scroll);
  if (!at.lane) return { top, height: at.row.height, offset: at.row.lanes[0]?.offset ?? 0 };
  const height = at.lane.height / at.lane.depth;
  const { offset } = at.lane;
  return depth === null || depth >= at.lane.depth ? { top: top + at.lane.y, height: at.lane.height, offset } : { top: top + at.lane.y + depth * height, height, offset };
}

export function drawMarks(g: CanvasRenderingContext2D, scene: Scene, x: X): void {
  losses(g, scene, x);
  area(g, scene, x);
  if (scene.collective) collective(g, scene, x);
  flows(g, scene, x);
  picked(g, scene, x);
  markers(g, scene, x);
}

/** Where records were lost there may have been work: what looks idle there is not known to be. */
function losses(g: CanvasRenderingContext2D, scene: Scene, x: X): void {
  for (const l of scene.info.losses) {
    if (l.ts_rel === null) continue;
    const at = Math.round(x(l.ts_rel));
    if (at < 0 || at > scene.width) continue;
    g.fillStyle = variable("--bad");
    g.globalAlpha = 0.6;
    for (const row of scene.layout.rows) {
      const top = topOf(row, scene.scroll);
      if (top > scene.height) break;
      if (top + row.height > 0 && row.all.some((t) => t.node === l.node && (l.rank === null || t.rank === l.rank))) g.fillRect(at - 1, top, 2 * scene.unit, row.height);
    }
    g.globalAlpha = 1;
  }
}

/** Lines through all tracks, each with its note. */
function markers(g: CanvasRenderingContext2D, scene: Scene, x: X): void {
  g.font = `600 ${Math.round(10.5 * scene.unit)}px ${getComputedStyle(document.body).fontFamily}`;
  for (const m of scene.markers) {
    const at = Math.round(x(m.t));
    if (at < 0 || at > scene.width) continue;
    g.fillStyle = variable("--accent");
    g.fillRect(at, 0, 1.5 * scene.unit, scene.height);
    if (!m.text) continue;
    const w = g.measureText(m.text).width + 8 * scene.unit;
    const left = Math.min(at, scene.width - w);
    g.fillRect(left, 0, w, 15 * scene.unit);
    g.fillStyle = variable("--panel");
    g.fillText(m.text, left + 4 * scene.unit, 8 * scene.unit);
  }
}

function area(g: CanvasRenderingContext2D, scene: Scene, x: X): void {
  const a = scene.area;
  if (!a) return;
  const left = x(a.from);
  const right = x(a.to);
  const tracks = scene.info.tracks;
  let top = Infinity;
  let bottom = -Infinity;
  for (let i = a.first; i <= a.last && i < tracks.length; i++) {
    const row = scene.layout.where.get(tracks[i].id)?.row;
    if (!row) continue;
    top = Math.min(top, topOf(row, scene.scroll));
    bottom = Math.max(bottom, topOf(row, scene.scroll) + row.height);
  }
  g.fillStyle = variable("--accent");
  g.globalAlpha = 0.14;
  g.fillRect(left, top, right - left, bottom - top);
  g.globalAlpha = 1;
  g.strokeStyle = variable("--accent");
  g.lineWidth = 1;
  g.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top - 2);
  const text = duration(a.to - a.from);
  g.font = `600 ${Math.round(10.5 * scene.unit)}px ${getComputedStyle(document.body).fontFamily}`;
  const w = g.measureText(text).width + 8 * scene.unit;
  const at = Math.min(Math.max(0, (left + right - w) / 2), scene.width - w);
  const y = Math.max(0, top) + 2 * scene.unit;
  g.fillStyle = variable("--accent");
  g.fillRect(at, y, w, 14 * scene.unit);
  g.fillStyle = variable("--panel");
  g.fillText(text, at + 4 * scene.unit, y + 7.5 * scene.unit);
}

function picked(g: CanvasRenderingContext2D, scene: Scene, x: X): void {
  const p = scene.picked;
  const at = p && scene.layout.where.get(p.track);
  if (!p || !at) return;
  const spot = place(scene, p.track, p.depth)!;
  const left = x(p.start - spot.offset);
  const w = Math.max(3, x(p.start - spot.offset + p.length) - left);
  g.strokeStyle = variable("--ink");
  g.lineWidth = 2;
  g.strokeRect(left - 1, spot.top - 1, w + 2, spot.height + 1);
}

function flows(g: CanvasRenderingContext2D, scene: Scene, x: X): void {
  const p = scene.picked;
  if (!p || !scene.flows.length) return;
  const own = place(scene, p.track, p.depth);
  if (!own) return;
  g.strokeStyle = variable("--ink");
  g.fillStyle = variable("--ink");
  g.lineWidth = 1.25 * scene.unit;
  for (const f of scene.flows.slice(0, 200)) {
    const other = place(scene, f.track, f.depth);
    if (!other || f.track === p.track) continue;
    const forward = f.ts_rel >= p.start;
    const mine = { t: p.start - own.offset, y: own };
    const its = { t: f.ts_rel - other.offset, y: other };
    const [a, b] = forward ? [mine, its] : [its, mine];
    arrow(g, x(a.t), a.y, x(b.t), b.y, scene.unit);
  }
}

function arrow(g: CanvasRenderingContext2D, x1: number, from: Place, x2: number, to: Place, unit: number): void {
  const y1 = from.top + from.height / 2;
  const y2 = to.top + to.height / 2;
  const bend = Math.max(20 * unit, Math.min(120 * unit, Math.abs(x2 - x1) / 2));
  g.beginPath();
  g.moveTo(x1, y1);
  g.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2 - 4 * unit, y2);
  g.stroke();
  g.beginPath();
  g.moveTo(x2, y2);
  g.lineTo(x2 - 6 * unit, y2 - 3.5 * unit);
  g.lineTo(x2 - 6 * unit, y2 + 3.5 * unit);
  g.fill();
}

function collective(g: CanvasRenderingContext2D, scene: Scene, x: X): void {
  const c = scene.collective!;
  const { unit } = scene;
  const last = Math.max(...c.arrivals.map((a) => a.ts_rel));
  const points: [number, number][] = [];
  for (const a of c.arrivals) {
    const spot = a.track === null ? null : place(scene, a.track, null);
    if (!spot) continue;
    const late = a.rank === c.culprit_rank;
    const left = x(a.ts_rel - spot.offset);
    points.push([left, spot.top + spot.height / 2]);
    // From its arrival to the last one a rank waits.
    if (!late && last > a.ts_rel && !spot.offset) {
      g.globalAlpha = 0.35;
      g.fillStyle = communication;
      g.fillRect(left, spot.top - 1, Math.max(1, x(last) - left), spot.height + 1);
      g.globalAlpha = 1;
    }
    g.fillStyle = late ? culprit : communication;
    g.fillRect(left - 1, spot.top - 2, late ? 3 : 2, spot.height + 3);
    if (late) {
      const waited = c.arrivals.reduce((sum, b) => sum + (b.wait_ns ?? 0), 0);
      const text = `rank ${a.rank} arrived last; the others waited ${duration(waited)} in total`;
      g.font = `600 ${Math.round(10.5 * unit)}px ${getComputedStyle(document.body).fontFamily}`;
      const w = g.measureText(text).width + 8 * unit;
      const at = Math.min(Math.max(0, left + 4 * unit), scene.width - w);
      const top = Math.max(0, spot.top - 15 * unit);
      g.fillRect(at, top, w, 14 * unit);
      g.fillStyle = "#ffffff";
      g.fillText(text, at + 4 * unit, top + 7.5 * unit);
    }
  }
  g.strokeStyle = communication;
  g.lineWidth = 1.25 * unit;
  g.setLineDash([4 * unit, 3 * unit]);
  g.beginPath();
  points.sort((a, b) => a[1] - b[1]).forEach(([px, py], i) => (i ? g.lineTo(px, py) : g.moveTo(px, py)));
  g.stroke();
  g.setLineDash([]);
}
