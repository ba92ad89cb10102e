// The timeline at work: one picture per animation frame when something changed, tiles asked for, moves animated.

import { rem } from "../theme";
import type { CollectiveDetail, Hit } from "../types";
import { drawRuler } from "./axis";
import { levelFor, Painter } from "./draw";
import { arrange, plain, rowAt, topOf, type Arrangement, type Layout, type Row } from "./layout";
import { gapAt } from "./gaps";
import { drawMinimap, Minimap } from "./minimap";
import { counterText, valueAt, type Counter } from "./counters";
import { clampView, minSpan, type Area, type Flow, type Marker, type Picked, type Scene, type Under } from "./model";
import { resultAt } from "./result";
import { Strips } from "./strips";
import { Steps, type Window } from "./steps";
import { span, tileBuckets, Tiles, type SliceTile } from "./tiles";
import type { Shown } from "./two";

export interface Parts {
  tracks: HTMLCanvasElement;
  ruler: HTMLCanvasElement;
  minimap: HTMLCanvasElement;
  scroller: HTMLElement;
}

/** What the page around the canvas follows. */
export interface Report {
  from: number;
  to: number;
  scroll: number;
  rows: Row[];
  firstRow: number;
  lastRow: number;
  height: number;
  pinned: number;
  /** Steps in the ruler. */
  steps: number;
  missing: number;
  slices: number;
  failed: Error | null;
  /** Width of the scroll bar, which the parts above leave free. */
  bar: number;
}

const moveMs = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : 180;

export class Engine {
  layout: Layout;
  from: number;
  to: number;
  picked: Picked | null = null;
  area: Area | null = null;
  flows: Flow[] = [];
  collective: CollectiveDetail | null = null;
  hits: Hit[] = [];
  markers: Marker[] = [];
  private counters: Counter[] = [];
  private how: Arrangement = plain;
  private readonly steps: Steps;
  found = "";
  /** Movement by keys that are held: share of the window a second. */
  pan = 0;
  zoom = 0;
  anchor = 0.5;
  private toggled: ReadonlySet<string>;
  private tiles: Tiles;
  private strips: Strips;
  private painter: Painter;
  private map: Minimap;
  private frame = 0;
  private last = 0;
  private move: { from: [number, number]; to: [number, number]; start: number } | null = null;
  private observer: ResizeObserver;
  private unit = rem() / 13;

  constructor(
    private info: Shown,
    private readonly parts: Parts,
    view: [number, number],
    toggled: ReadonlySet<string>,
    private readonly report: (r: Report) => void,
  ) {
    [this.from, this.to] = view;
    this.toggled = toggled;
    this.tiles = new Tiles(info, () => this.topLevel(), () => this.redraw());
    this.steps = new Steps(this.tiles);
    this.strips = new Strips(this.tiles.names, info.types);
    this.painter = new Painter(parts.tracks.getContext("2d", { alpha: false })!, this.tiles, this.strips, () => this.topLevel());
    this.map = new Minimap(info, () => this.redraw());
    this.layout = arrange(info.tracks, toggled, this.unit);
    this.observer = new ResizeObserver(() => this.redraw());
    this.observer.observe(parts.tracks.parentElement!);
    parts.scroller.addEventListener("scroll", this.redraw);
    this.redraw();
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    this.observer.disconnect();
    this.parts.scroller.removeEventListener("scroll", this.redraw);
    this.tiles.close();
    this.map.close();
  }

  get duration(): number {
    return this.info.duration_ns;
  }

  topLevel(): number {
    return Math.max(0, Math.ceil(Math.log2(Math.max(1, this.info.duration_ns) / tileBuckets)));
  }

  /** A running session has grown, or has got tracks. */
  update(info: Shown): void {
    if (info === this.info) return;
    const end = this.info.duration_ns;
    const whole = this.from <= 0 && this.to >= end;
    const name = (t: { group: string; name: string } | undefined) => t && `${t.group}\n${t.name}`;
    const now = new Map(info.tracks.map((t) => [t.id, t]));
    const same = info.origin === this.info.origin && this.info.tracks.every((t) => name(now.get(t.id)) === name(t));
    this.info = info;
    // Tracks that came in between may have moved the numbers of the others.
    if (same) this.tiles.forgetAfter(end - 2e9);
    else this.tiles.clear();
    this.map.update(info);
    this.layout = arrange(info.tracks, this.toggled, this.unit, this.counters);
    if (whole) [this.from, this.to] = [0, info.duration_ns];
    // Who looks at the end goes on looking at it.
    else if (this.to >= end * 0.995 && this.to <= end * 1.06 && info.duration_ns > end) this.moveTo(this.from + info.duration_ns - end, this.to + info.duration_ns - end);
    this.redraw();
  }

  setToggled(toggled: ReadonlySet<string>): void {
    this.toggled = toggled;
    this.layout = arrange(this.info.tracks, toggled, this.unit, this.counters, this.how);
    this.redraw();
  }

  setCounters(counters: Counter[]): void {
    this.counters = counters;
    this.layout = arrange(this.info.tracks, this.toggled, this.unit, counters, this.how);
    this.redraw();
  }

  arrangeBy(how: Arrangement): void {
    this.how = how;
    this.layout = arrange(this.info.tracks, this.toggled, this.unit, this.counters, how);
    this.parts.scroller.scrollTop = Math.min(this.parts.scroller.scrollTop, Math.max(0, this.layout.height - this.parts.scroller.clientHeight));
    this.redraw();
  }

  retry(): void {
    this.tiles.clear();
    this.map.update(this.info);
    this.redraw();
  }

  readonly redraw = (): void => {
    if (!this.frame) this.frame = requestAnimationFrame(this.paint);
  };

  setView(from: number, to: number): void {
    this.move = null;
    [this.from, this.to] = clampView(from, to, this.duration);
    this.redraw();
  }

  moveTo(from: number, to: number): void {
    this.move = { from: [this.from, this.to], to: clampView(from, to, this.duration), start: performance.now() };
    if (moveMs === 0) this.setView(...this.move.to);
    this.redraw();
  }

  /** Zooms by a factor; `at` is the share of the width that stays where it is. */
  zoomBy(factor: number, at: number): void {
    const length = this.to - this.from;
    const next = Math.min(Math.max(length * factor, minSpan), this.duration * 1.1);
    const t = this.from + length * at;
    this.setView(t - next * at, t - next * at + next);
  }

  panBy(share: number): void {
    const by = (this.to - this.from) * share;
    this.setView(this.from + by, this.to + by);
  }

  /** Brings a stretch of time, and a track, into sight. */
  show(start: number, length: number, track: number | null): void {
    const room = Math.max(length * 0.6, minSpan);
    const begin = start - (track === null ? 0 : this.offsetOf(track));
    this.moveTo(begin - room, begin + length + room);
    if (track !== null) this.reveal(track);
  }

  reveal(track: number, depth = 0): void {
    const at = this.layout.where.get(track);
    if (!at) return;
    const { scroller } = this.parts;
    const view = scroller.clientHeight;
    const line = at.lane ? at.lane.height / at.lane.depth : at.row.height;
    const top = at.row.y + (at.lane ? at.lane.y + depth * line : 0);
    const { pinnedHeight } = this.layout;
    if (!at.row.pinned && (top < scroller.scrollTop + pinnedHeight || top + line > scroller.scrollTop + view)) scroller.scrollTop = Math.max(0, top + line / 2 - (view + pinnedHeight) / 2);
    this.redraw();
  }

  timeAt(x: number): number {
    return this.from + (x / this.parts.tracks.clientWidth) * (this.to - this.from);
  }

  rowAt(y: number): Row | null {
    const { rows, pinnedHeight } = this.layout;
    const at = y < pinnedHeight ? y : y + this.parts.scroller.scrollTop;
    return rows[Math.min(rows.length - 1, rowAt(this.layout, at))] ?? null;
  }

  /** What is added to a time of the window to get one of this track. */
  offsetOf(track: number): number {
    const at = this.layout.where.get(track);
    return (at?.lane ?? at?.row.lanes[0])?.offset ?? 0;
  }

  /** The step in the middle of the window, of the rank whose steps are in the ruler. */
  stepInSight(): string | null {
    const middle = (this.from + this.to) / 2;
    const steps = this.steps.bands(this.layout, this.window());
    return (steps.find((s) => s.end >= middle) ?? steps.at(-1))?.name ?? null;
  }

  private window(): Window {
    return { level: this.level(), from: this.from, to: this.to };
  }

  /** What is at a place of the canvas. */
  at(x: number, y: number): Under {
    const row = this.rowAt(y);
    if (!row) return null;
    if (row.counter) {
      const value = valueAt(row.counter, this.timeAt(x) + (row.offset ?? 0));
      return value === null ? null : { kind: "counter", label: row.label, text: counterText(row.counter, value) };
    }
    const inside = y - topOf(row, this.parts.scroller.scrollTop);
    if (row.result) {
      const r = row.result;
      const i = resultAt(r, this.timeAt(x), Math.floor((inside / row.height) * r.depth), ((this.to - this.from) / this.parts.tracks.clientWidth) * 2);
      return i < 0 ? null : { kind: "result", start: r.start[i], length: r.length[i], text: r.text[i] };
    }
    const lane = row.lanes.find((l) => inside >= l.y && inside < l.y + l.height) ?? (row.lanes.length === 1 ? row.lanes[0] : null);
    if (!lane) return null;
    const depth = Math.min(lane.depth - 1, Math.max(0, Math.floor(((inside - lane.y) / lane.height) * lane.depth)));
    const found = this.find(lane.track.id, this.timeAt(x) + lane.offset, depth);
    const gap = found ? null : gapAt(this.info, lane.track, this.timeAt(x) + lane.offset);
    return gap ? { kind: "gap", length: gap.to - gap.from } : found;
  }

  private level(): number {
    return levelFor(this.from, this.to, this.parts.tracks.clientWidth * devicePixelRatio, this.topLevel());
  }

  private find(track: number, t: number, depth: number): Under {
    const level = this.level();
    const tile = this.tiles.exact(track, level, Math.floor(t / span(level)));
    if (!tile) return null;
    const name = (i: number) => this.tiles.names[i];
    const type = (i: number) => this.info.types[i] ?? "other";
    if (tile.detail === "buckets") {
      const long = tile.over && this.nearest(tile.over, track, t, depth, 0);
      if (long) return long;
      const bucket = (tile.to - tile.from) / tileBuckets;
      const at = Math.floor((t - tile.from) / bucket);
      const i = tile.index.findIndex((n, k) => n === at && tile.depth[k] === depth);
      if (i < 0) return null;
      const from = tile.from + tile.index[i] * bucket;
      return { kind: "bucket", track, from, to: from + bucket, busy: tile.busy[i], count: tile.count[i], name: name(tile.name[i]), type: type(tile.type[i]) };
    }
    return this.nearest(tile, track, t, depth, ((this.to - this.from) / this.parts.tracks.clientWidth) * 2);
  }

  private nearest(tile: SliceTile, track: number, t: number, depth: number, near: number): Under {
    const name = (i: number) => this.tiles.names[i];
    const type = (i: number) => this.info.types[i] ?? "other";
    let best = -1;
    let distance = near;
    for (let i = 0; i < tile.start.length && tile.start[i] <= t + near; i++) {
      if (tile.depth[i] !== depth) continue;
      const d = Math.max(tile.start[i] - t, t - tile.start[i] - tile.length[i], 0);
      if (d <= distance) {
        distance = d;
        best = i;
      }
    }
    if (best < 0) return null;
    return {
      kind: "slice",
      picked: { track, row: tile.row[best], start: tile.start[best], length: tile.length[best], depth: tile.depth[best], name: name(tile.name[best]), type: type(tile.type[best]) },
    };
  }

  /** The event before or after the selected one on its track, if its tile is here. */
  neighbour(step: 1 | -1): Picked | null {
    const p = this.picked;
    if (!p) return null;
    const offset = this.offsetOf(p.track);
    for (const t of step > 0 ? [p.start, this.to + offset] : [p.start, this.from + offset]) {
      const tile = this.tiles.exact(p.track, this.level(), Math.floor(t / span(this.level())));
      if (tile?.detail !== "slices") continue;
      const order = [...tile.start.keys()].filter((i) => tile.depth[i] === p.depth && (step > 0 ? tile.start[i] > p.start : tile.start[i] < p.start));
      const i = step > 0 ? order[0] : order.at(-1);
      if (i === undefined) continue;
      return { track: p.track, row: tile.row[i], start: tile.start[i], length: tile.length[i], depth: p.depth, name: this.tiles.names[tile.name[i]], type: this.info.types[tile.type[i]] ?? "other" };
    }
    return null;
  }

  /** An event in the middle of the window, for who has no mouse. */
  anyEvent(): Picked | null {
    const scroll = this.parts.scroller.scrollTop;
    const rows = this.layout.rows.filter((r) => topOf(r, scroll) + r.height > 0 && topOf(r, scroll) < this.parts.scroller.clientHeight);
    for (const lane of rows.flatMap((r) => r.lanes))
      for (const share of [0.5, 0.4, 0.6, 0.25, 0.75]) {
        const found = this.find(lane.track.id, this.from + lane.offset + (this.to - this.from) * share, 0);
        if (found?.kind === "slice") return found.picked;
      }
    return null;
  }

  /** The event of the track above or below that is nearest in time. */
  across(step: 1 | -1): Picked | null {
    const p = this.picked;
    const at = p && this.layout.where.get(p.track);
    if (!p || !at) return null;
    const lanes = this.layout.rows.flatMap((r) => r.lanes);
    let i = lanes.findIndex((l) => l.track.id === p.track);
    for (i += step; i >= 0 && i < lanes.length; i += step) {
      const found = this.find(lanes[i].track.id, p.start + p.length / 2 - this.offsetOf(p.track) + lanes[i].offset, 0);
      if (found?.kind === "slice") return found.picked;
    }
    return null;
  }

  private size(canvas: HTMLCanvasElement): [number, number] {
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    const w = Math.round(width * devicePixelRatio);
    const h = Math.round(height * devicePixelRatio);
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
    }
    return [width, height];
  }

  private advance(now: number): boolean {
    const seconds = Math.min(0.05, (now - this.last) / 1000);
    if (this.move) {
      const part = Math.min(1, (now - this.move.start) / moveMs);
      const eased = 1 - (1 - part) ** 3;
      const { from, to } = this.move;
      // Lengths change by factors: a zoom looks even from hours to microseconds.
      const length = (from[1] - from[0]) ** (1 - eased) * (to[1] - to[0]) ** eased;
      const shrink = from[1] - from[0] === to[1] - to[0] ? eased : (length - (from[1] - from[0])) / (to[1] - to[0] - (from[1] - from[0]));
      const middle = (from[0] + from[1]) / 2 + ((to[0] + to[1]) / 2 - (from[0] + from[1]) / 2) * shrink;
      [this.from, this.to] = part >= 1 ? to : clampView(middle - length / 2, middle + length / 2, this.duration);
      if (part >= 1) this.move = null;
    }
    if (this.pan) this.panBy(this.pan * seconds);
    if (this.zoom) this.zoomBy(Math.exp(this.zoom * seconds), this.anchor);
    return !!(this.move || this.pan || this.zoom);
  }

  private readonly paint = (now: number): void => {
    this.frame = 0;
    const moving = this.advance(now);
    this.last = now;
    const { tracks, ruler, minimap, scroller } = this.parts;
    const unit = rem() / 13;
    if (unit !== this.unit) {
      this.unit = unit;
      this.layout = arrange(this.info.tracks, this.toggled, unit, this.counters, this.how);
    }
    const [width, height] = this.size(tracks);
    if (!width || !height) return;
    const scene: Scene = {
      info: this.info,
      layout: this.layout,
      from: this.from,
      to: this.to,
      scroll: scroller.scrollTop,
      width,
      height,
      unit,
      picked: this.picked,
      area: this.area,
      flows: this.flows,
      collective: this.collective,
      hits: this.hits,
      markers: this.markers,
      found: this.found,
      steps: this.steps.bands(this.layout, this.window()),
    };
    const { wants, slices, behind } = this.painter.draw(scene, devicePixelRatio);
    wants.push(...this.steps.wants(this.layout, this.window(), this.duration));
    const missing = this.tiles.want(wants) + (behind ? 1 : 0);
    const [rulerWidth, rulerHeight] = this.size(ruler);
    const g = ruler.getContext("2d")!;
    g.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    drawRuler(g, scene, rulerWidth, rulerHeight, (track) => this.offsetOf(track));
    this.size(minimap);
    drawMinimap(minimap, this.map, this.from, this.to, this.duration, unit);
    const firstRow = rowAt(this.layout, scene.scroll + this.layout.pinnedHeight);
    let lastRow = firstRow;
    while (lastRow + 1 < this.layout.rows.length && this.layout.rows[lastRow + 1].y < scene.scroll + height) lastRow++;
    this.report({ from: this.from, to: this.to, scroll: scene.scroll, rows: this.layout.rows, firstRow, lastRow, height: this.layout.height, pinned: this.layout.pinnedRows, steps: scene.steps.length, missing, slices, failed: this.tiles.failed, bar: scroller.offsetWidth - scroller.clientWidth });
    if (moving || behind) this.redraw();
  };
}
