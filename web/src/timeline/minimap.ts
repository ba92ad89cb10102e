// The whole trace in one line: how busy the streams are, with the window on it.

import { get, query, trace } from "../api";
import { variable } from "../theme";
import type { TileAnswer, TimelineInfo } from "../types";
import { inSecond } from "./two";

const buckets = 512;
const sample = 32;

export class Minimap {
  /** Mean busy share of the sampled streams; null until it is known. */
  busy: Float32Array | null = null;
  private control = new AbortController();

  constructor(
    private info: TimelineInfo,
    private readonly arrived: () => void,
  ) {
    void this.load();
  }

  update(info: TimelineInfo): void {
    this.info = info;
    void this.load();
  }

  close(): void {
    this.control.abort();
  }

  private async load(): Promise<void> {
    const streams = this.info.tracks.filter((t) => t.kind === "stream" && t.events > 0 && !inSecond(t.id)).sort((a, b) => b.events - a.events);
    const every = Math.max(1, Math.ceil(streams.length / sample));
    const tracks = streams.filter((_, i) => i % every === 0).map((t) => t.id);
    const length = Math.max(1, this.info.duration_ns);
    if (!tracks.length) return;
    try {
      const path = `${trace(this.info.id)}/tiles${query({ from: 0, to: length, width: buckets, tracks: tracks.join(",") })}`;
      const answer = await get<TileAnswer>(path, this.control.signal);
      const busy = new Float32Array(buckets);
      for (const t of answer.tracks) {
        for (const b of t.buckets) busy[b[0]] += b[1];
        for (const s of t.slices) {
          if (s[5]) continue;
          const bucket = length / buckets;
          for (let i = Math.max(0, Math.floor(s[0] / bucket)); i <= Math.min(buckets - 1, Math.floor((s[0] + s[1]) / bucket)); i++)
            busy[i] += Math.max(0, Math.min(s[0] + s[1], (i + 1) * bucket) - Math.max(s[0], i * bucket)) / bucket;
        }
      }
      for (let i = 0; i < buckets; i++) busy[i] = Math.min(1, busy[i] / tracks.length);
      this.busy = busy;
      this.arrived();
    } catch {
      // The tracks below say what is wrong.
    }
  }
}

export function drawMinimap(canvas: HTMLCanvasElement, map: Minimap, from: number, to: number, duration: number, unit: number): void {
  const g = canvas.getContext("2d")!;
  const { width, height } = canvas;
  g.setTransform(1, 0, 0, 1, 0, 0);
  g.clearRect(0, 0, width, height);
  if (map.busy) {
    g.fillStyle = variable("--line-strong");
    const w = width / buckets;
    const most = Math.max(0.05, ...map.busy);
    for (let i = 0; i < buckets; i++) {
      const h = (map.busy[i] / most) * (height - 2);
      g.fillRect(i * w, height - h, w + 0.5, h);
    }
  }
  const left = (from / duration) * width;
  const right = (to / duration) * width;
  g.fillStyle = variable("--ground");
  g.globalAlpha = 0.6;
  g.fillRect(0, 0, Math.max(0, left), height);
  g.fillRect(right, 0, width - right, height);
  g.globalAlpha = 1;
  g.strokeStyle = variable("--accent");
  g.lineWidth = 1.5 * unit * devicePixelRatio;
  g.strokeRect(Math.max(1, left), 1, Math.max(3, Math.min(width, right) - Math.max(0, left) - 2), height - 2);
}
