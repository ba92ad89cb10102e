// Draws the tracks in view. Dense parts are strips (see strips.ts), the others are rectangles with names in them.

import { inkOn, rgbOf, sliceColor } from "../color";
import { variable } from "../theme";
import { shortName } from "../names";
import { counterText, type Counter } from "./counters";
import { ticks } from "./axis";
import { rowAt, topOf, type Lane, type Row } from "./layout";
import { stepNumber, type Scene } from "./model";
import { drawGaps, gapsOf } from "./gaps";
import { drawMarks } from "./marks";
import type { ResultTrack } from "./result";
import type { Strips } from "./strips";
import { firstFrom, span, tileBuckets, type SliceTile, type Tile, type Tiles, type Want } from "./tiles";

export interface Drawn {
  wants: Want[];
  /** Events drawn one by one. */
  slices: number;
  /** Something was left for the next frame. */
  behind: boolean;
}

/** Beyond so many events a pixel a strip is drawn. */
const dense = 0.3;
/** The same for lanes that are only so many pixels high. */
const thin = 4;
const mostAhead = 300;
const thinDense = 0.004;

export const levelFor = (from: number, to: number, pixels: number, top: number): number =>
  Math.min(top, Math.max(0, Math.ceil(Math.log2((to - from) / Math.max(1, pixels)))));

/** As the tracks of a rank that is moved by an offset see it. */
const shifted = (scene: Scene, offset: number): Scene => (offset ? { ...scene, from: scene.from + offset, to: scene.to + offset } : scene);

const inks = new Map<string, string>();
const inkFor = (color: string): string => {
  let ink = inks.get(color);
  if (!ink) inks.set(color, (ink = inkOn(rgbOf(color))));
  return ink;
};

/** What names are made of: how wide a letter is on average. */
const sample = "sm90_xmma_gemm_bf16_ncclDevKernel_AllReduce";

export class Painter {
  private charWidth = 6;
  private colors: string[] = [];
  private foundText = "";
  private found: boolean[] = [];

  constructor(
    private readonly g: CanvasRenderingContext2D,
    private readonly tiles: Tiles,
    private readonly strips: Strips,
    private readonly topLevel: () => number,
  ) {}

  draw(scene: Scene, pixelRatio: number): Drawn {
    const { g } = this;
    const { layout, width, height, scroll, unit } = scene;
    this.strips.begin();
    g.setTransform(pixelRatio, 0, 0, pixelRatio, 0, 0);
    g.imageSmoothingEnabled = false;
    g.fillStyle = variable("--panel");
    g.fillRect(0, 0, width, height);
    g.font = `${Math.round(10.5 * unit)}px ${getComputedStyle(document.body).fontFamily}`;
    g.textBaseline = "middle";
    this.charWidth = g.measureText(sample).width / sample.length;

    const level = levelFor(scene.from, scene.to, width * pixelRatio, this.topLevel());
    const { pinnedHeight } = layout;
    const first = rowAt(layout, scroll + pinnedHeight);
    const visible: Row[] = [];
    for (let i = first; i < layout.rows.length && layout.rows[i].y < scroll + height; i++) visible.push(layout.rows[i]);
    const pinned = layout.rows.slice(0, layout.pinnedRows);
    const wanted = new Map<number, number[]>();
    let slices = 0;
    const rows = (list: Row[], from: number, to: number) => {
      if (!list.length || to <= from) return;
      g.save();
      g.beginPath();
      g.rect(0, from, width, to - from);
      g.clip();
      this.ground(scene, list, from, to);
      for (const row of list) for (const lane of row.lanes) slices += this.lane(shifted(scene, lane.offset), lane, topOf(row, scroll), level, wanted);
      for (const row of list) {
        if (row.counter) this.counter(shifted(scene, row.offset ?? 0), row, row.counter);
        if (row.result) this.result(scene, row, row.result);
      }
      g.restore();
    };
    rows(visible, pinnedHeight, height);
    rows(pinned, 0, Math.min(pinnedHeight, height));
    if (pinned.length) {
      g.fillStyle = variable("--line-strong");
      g.fillRect(0, pinnedHeight - 1, width, 1);
    }
    drawMarks(g, scene, (t) => this.x(scene, t));

    const wants = [...wanted].map(([index, tracks]): Want => ({ level, index, tracks }));
    return { wants: [...wants, ...this.soon(scene, level, first, visible)], slices, behind: this.strips.behind };
  }

  /** What is behind the bars of some rows: their own ground, steps, and lines of time. */
  private ground(scene: Scene, list: Row[], from: number, to: number): void {
    const { g } = this;
    const { width, unit, scroll } = scene;
    const line = variable("--grid");
    for (const row of list) {
      const y = topOf(row, scroll);
      if (row.kind === "node" || (row.kind === "group" && !row.closed)) {
        g.fillStyle = variable("--sunken");
        g.fillRect(0, y, width, row.height - 1);
      }
      g.fillStyle = line;
      g.fillRect(0, y + row.height - 1, width, 1);
    }
    g.fillStyle = line;
    for (const tick of ticks(scene.from, scene.to, width, unit)) g.fillRect(Math.round(this.x(scene, tick.t)), from, 1, to - from);
    g.fillStyle = variable("--accent");
    scene.steps.forEach((s) => {
      const left = this.x(scene, s.start);
      const right = Math.min(width, this.x(scene, s.end));
      if (right < 0 || left > width) return;
      if (stepNumber(s.name) % 2) {
        g.globalAlpha = 0.05;
        g.fillRect(Math.max(0, left), from, right - Math.max(0, left), to - from);
      }
      if (right - left < 6) return;
      g.globalAlpha = 0.2;
      g.fillRect(Math.round(left), from, 1, to - from);
    });
    g.globalAlpha = 1;
    this.outside(scene);
  }

  /** Rows of a query. */
  private result(scene: Scene, row: Row, r: ResultTrack): void {
    const { g } = this;
    const { unit } = scene;
    const each = (row.height - 4 * unit) / r.depth;
    const top = topOf(row, scene.scroll) + 2 * unit;
    for (let i = 0; i < r.start.length && r.start[i] <= scene.to; i++) {
      if (r.start[i] + r.length[i] < scene.from) continue;
      const left = Math.max(-2, this.x(scene, r.start[i]));
      const w = Math.max(2, Math.min(scene.width + 2, this.x(scene, r.start[i] + r.length[i])) - left - 1);
      const y = top + r.level[i] * each;
      g.fillStyle = variable("--accent");
      g.fillRect(left, y, w, each - 1);
      const room = Math.floor((w - 5 * unit) / this.charWidth);
      if (room < 3) continue;
      g.fillStyle = variable("--panel");
      g.fillText(r.text[i].length > room ? `${r.text[i].slice(0, room - 1)}…` : r.text[i], Math.max(left, 0) + 3 * unit, y + each / 2);
    }
  }

  /** What is likely to be wanted next: the whole trace, both sides, and the rows above and below. */
  private soon(scene: Scene, level: number, first: number, visible: Row[]): Want[] {
    const tracks = visible.flatMap((r) => r.lanes.map((l) => l.track.id));
    // Of very many lanes even to look what is here takes longer than a frame.
    if (tracks.length > mostAhead) return [{ level: this.topLevel(), index: 0, tracks }];
    const { rows } = scene.layout;
    const around = [...rows.slice(Math.max(0, first - 8), first), ...rows.slice(first + visible.length, first + visible.length + 12)].flatMap((r) =>
      r.lanes.map((l) => l.track.id),
    );
    const length = span(level);
    const low = Math.max(0, Math.floor(scene.from / length));
    const end = Math.max(0, Math.ceil(scene.info.duration_ns / length) - 1);
    const high = Math.min(end, Math.max(0, Math.floor(scene.to / length)));
    const list: Want[] = [{ level: this.topLevel(), index: 0, tracks }];
    for (let i = low; i <= high; i++) list.push({ level, index: i, tracks: around });
    if (low > 0) list.push({ level, index: low - 1, tracks });
    if (high < end) list.push({ level, index: high + 1, tracks });
    if (level + 2 < this.topLevel()) list.push({ level: level + 2, index: Math.floor(low / 4), tracks });
    return list.filter((w) => w.tracks.length);
  }

  private x(scene: Scene, t: number): number {
    return ((t - scene.from) / (scene.to - scene.from)) * scene.width;
  }

  /** Before the first and after the last event there is nothing, and it looks so. */
  private outside(scene: Scene): void {
    const { g } = this;
    g.fillStyle = variable("--ground");
    const start = this.x(scene, 0);
    const end = this.x(scene, scene.info.duration_ns);
    if (start > 0) g.fillRect(0, 0, start, scene.height);
    if (end < scene.width) g.fillRect(end, 0, scene.width - end, scene.height);
  }

  /** A metric as a filled line; where nothing was measured there is none. */
  private counter(scene: Scene, row: Row, c: Counter): void {
    const { g } = this;
    const bottom = topOf(row, scene.scroll) + row.height - 2;
    const height = row.height - 6 * scene.unit;
    const first = Math.max(0, c.t.findIndex((t) => t >= scene.from) - 1);
    g.fillStyle = variable("--accent");
    g.strokeStyle = variable("--accent");
    g.lineWidth = scene.unit;
    let open: number | null = null;
    const line = new Path2D();
    const area = new Path2D();
    let x = 0;
    const close = () => {
      if (open !== null) {
        area.lineTo(x, bottom);
        area.lineTo(open, bottom);
      }
      open = null;
    };
    for (let i = first; i < c.t.length; i++) {
      if (Number.isNaN(c.values[i]) || (i > first && c.t[i] - c.t[i - 1] > 3 * c.step)) close();
      if (Number.isNaN(c.values[i])) continue;
      x = this.x(scene, c.t[i]);
      const y = bottom - Math.max(0, Math.min(1, c.values[i] / c.most)) * height;
      if (open === null) {
        open = x;
        area.moveTo(x, bottom);
        line.moveTo(x, y);
      } else line.lineTo(x, y);
      area.lineTo(x, y);
      if (c.t[i] > scene.to) break;
    }
    close();
    g.globalAlpha = 0.2;
    g.fill(area);
    g.globalAlpha = 1;
    g.stroke(line);
    g.fillStyle = variable("--ink-faint");
    g.fillText(counterText(c, c.most), 3 * scene.unit, topOf(row, scene.scroll) + 7 * scene.unit);
  }

  private lane(scene: Scene, lane: Lane, rowY: number, level: number, wanted: Map<number, number[]>): number {
    const length = span(level);
    const low = Math.max(0, Math.floor(scene.from / length));
    const high = Math.min(Math.ceil(scene.info.duration_ns / length) - 1, Math.floor(scene.to / length));
    const y = rowY + lane.y;
    drawGaps(this.g, gapsOf(scene.info, lane.track), scene.from, scene.to, scene.width, y, lane.height, scene.unit);
    let drawn = 0;
    let run: { tile: SliceTile; first: number; last: number } | null = null;
    const finish = () => {
      if (!run) return;
      const { tile, first, last } = run;
      run = null;
      const from = Math.max(scene.from, first * length);
      const to = Math.min(scene.to, (last + 1) * length);
      const pixels = Math.max(1, ((to - from) / (scene.to - scene.from)) * scene.width);
      // Of thin lines there are many, and nothing in them has a name.
      const share = lane.height <= thin ? thinDense : dense;
      if (between(tile, from, to) / pixels > share * Math.min(8, lane.depth)) {
        for (let i = first; i <= last; i++) this.strip(scene, lane, y, tile, i * length, (i + 1) * length, i * length, (i + 1) * length);
      } else drawn += this.slices(scene, lane, y, tile, from, to, first > low);
    };
    for (let i = low; i <= high; i++) {
      const tile = this.tiles.exact(lane.track.id, level, i);
      if (tile?.detail === "slices") {
        if (run && (run as { tile: Tile }).tile !== tile) finish();
        run = run ? { tile, first: (run as { first: number }).first, last: i } : { tile, first: i, last: i };
        continue;
      }
      finish();
      if (tile) {
        this.strip(scene, lane, y, tile, tile.from, tile.to, tile.from, tile.to);
        if (tile.over && lane.height / lane.depth >= 10 * scene.unit) drawn += this.slices(scene, lane, y, tile.over, Math.max(scene.from, tile.from), Math.min(scene.to, tile.to), false);
        continue;
      }
      const list = wanted.get(i);
      if (list) list.push(lane.track.id);
      else wanted.set(i, [lane.track.id]);
      const coarse = this.tiles.coarser(lane.track.id, level, i);
      if (coarse) this.strip(scene, lane, y, coarse.tile, coarse.tile.from, coarse.tile.to, i * length, (i + 1) * length);
    }
    finish();
    return drawn;
  }

  /** Draws the part [from, to) of a strip that covers [stripFrom, stripTo). */
  private strip(scene: Scene, lane: Lane, y: number, tile: Tile, stripFrom: number, stripTo: number, from: number, to: number): void {
    const left = Math.max(from, scene.from);
    const right = Math.min(to, scene.to);
    if (right <= left) return;
    const rows = lane.depth;
    const strip = this.strips.of(tile, stripFrom, stripTo, rows);
    if (!strip) return;
    const per = tileBuckets / (stripTo - stripFrom);
    // Whole buckets, so that they do not shimmer when moved.
    const a = Math.floor((left - stripFrom) * per);
    const b = Math.min(tileBuckets, Math.ceil((right - stripFrom) * per));
    if (b <= a) return;
    const xa = this.x(scene, stripFrom + a / per);
    const xb = this.x(scene, stripFrom + b / per);
    const each = lane.height / lane.depth;
    const gap = each > 4 ? 1 : 0;
    if (!gap) this.g.drawImage(strip.canvas, a, strip.y, b - a, rows, xa, y, xb - xa, lane.height);
    else for (let d = 0; d < rows; d++) this.g.drawImage(strip.canvas, a, strip.y + d, b - a, 1, xa, y + d * each, xb - xa, each - gap);
  }

  /** Whether a name is searched for. */
  private matches(name: number, text: string): boolean {
    if (text !== this.foundText) {
      this.foundText = text;
      this.found = [];
    }
    return (this.found[name] ??= this.tiles.names[name].toLowerCase().includes(text));
  }

  /** By number: names are long, and there are thousands of them in a picture. */
  private color(name: number, type: number, types: string[]): string {
    const key = name * 64 + type;
    return (this.colors[key] ??= sliceColor(this.tiles.names[name], types[type] ?? "other"));
  }

  private slices(scene: Scene, lane: Lane, y: number, tile: SliceTile, from: number, to: number, continued: boolean): number {
    const { g } = this;
    const { width, unit } = scene;
    const names = this.tiles.names;
    const scale = width / (scene.to - scene.from);
    const each = lane.height / lane.depth;
    const gap = each > 4 ? 1 : 0;
    let drawn = 0;
    const lastX = new Float64Array(lane.depth).fill(-1);
    let fill = "";
    for (let i = firstFrom(tile, from - tile.longest); i < tile.start.length; i++) {
      const start = tile.start[i];
      if (start >= to) break;
      const end = start + tile.length[i];
      const depth = tile.depth[i];
      if (end < from || depth >= lane.depth || (continued && start < from)) continue;
      const x1 = Math.max(-2, (start - scene.from) * scale);
      const x2 = Math.min(width + 2, (end - scene.from) * scale);
      if (x2 - x1 < 1 && x1 < lastX[depth]) continue;
      const w = Math.max(1, x2 - x1 - (x2 - x1 > 3 ? 1 : 0));
      lastX[depth] = x1 + w;
      const color = this.color(tile.name[i], tile.type[i], scene.info.types);
      // The canvas reads a colour anew each time it is given one.
      if (color !== fill) g.fillStyle = fill = color;
      const top = y + depth * each;
      g.fillRect(x1, top, w, each - gap);
      drawn++;
      if (scene.found && w >= 4 && this.matches(tile.name[i], scene.found)) {
        g.strokeStyle = variable("--ink");
        g.lineWidth = 1;
        g.strokeRect(x1 + 0.5, top + 0.5, Math.max(1, w - 1), each - 2);
      }
      const room = Math.floor((w - 5 * unit) / this.charWidth);
      if (room < 3 || each < 10 * unit) continue;
      let text = shortName(names[tile.name[i]]);
      if (text.length > room) text = `${text.slice(0, room - 1)}…`;
      g.fillStyle = fill = inkFor(color);
      g.fillText(text, Math.max(x1, 0) + 3 * unit, top + each / 2);
    }
    return drawn;
  }
}

const between = (tile: SliceTile, from: number, to: number): number => firstFrom(tile, to) - firstFrom(tile, from);
