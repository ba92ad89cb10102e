// Hundreds of lines in one chart, painted by us: a canvas takes a second to stroke them, this a few milliseconds.
// Where lines lie on each other the picture is more opaque, so that the crowd and those outside of it are both seen.

import type uPlot from "uplot";

export interface Crowd {
  color: string;
  values: (number | null | undefined)[];
}

const channel = (color: string, at: number): number => parseInt(color.slice(at, at + 2), 16);
const faint = 90;
const more = 34;

/** Paints the lines over the plotting area of a chart. */
export function paintCrowd(u: uPlot, lines: Crowd[]): void {
  const width = Math.round(u.bbox.width);
  const height = Math.round(u.bbox.height);
  const { min, max } = u.scales.x;
  const { min: low, max: high } = u.scales.y;
  if (width < 2 || height < 2 || min == null || max == null || low == null || high == null || max <= min || high <= low) return;
  const x = u.data[0];
  const image = new ImageData(width, height);
  const data = image.data;
  // Where each point is: the same for all lines.
  const columns = Int32Array.from(x, (v) => Math.round(((v - min) / (max - min)) * (width - 1)));
  for (const line of lines) {
    const r = channel(line.color, 1);
    const g = channel(line.color, 3);
    const b = channel(line.color, 5);
    const dot = (column: number, from: number, to: number): void => {
      const first = Math.max(0, Math.min(from, to));
      const last = Math.min(height - 1, Math.max(from, to));
      for (let y = first; y <= last; y++) {
        const at = (y * width + column) * 4;
        const there = data[at + 3];
        data[at] = there ? (data[at] + r) >> 1 : r;
        data[at + 1] = there ? (data[at + 1] + g) >> 1 : g;
        data[at + 2] = there ? (data[at + 2] + b) >> 1 : b;
        data[at + 3] = there ? Math.min(255, there + more) : faint;
      }
    };
    let lastColumn = -1;
    let lastY = 0;
    for (let i = 0; i < columns.length; i++) {
      const v = line.values[i];
      const column = columns[i];
      if (v === null || v === undefined || column < 0 || column >= width) {
        lastColumn = -1;
        continue;
      }
      const y = Math.round((1 - (v - low) / (high - low)) * (height - 1));
      if (lastColumn < 0 || column === lastColumn) dot(column, lastColumn < 0 ? y : lastY, y);
      else {
        const slope = (y - lastY) / (column - lastColumn);
        let before = lastY;
        for (let c = lastColumn + 1; c <= column; c++) {
          const now = Math.round(lastY + slope * (c - lastColumn));
          dot(c, before, now);
          before = now;
        }
      }
      lastColumn = column;
      lastY = y;
    }
  }
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  u.ctx.drawImage(canvas, Math.round(u.bbox.left), Math.round(u.bbox.top));
}
