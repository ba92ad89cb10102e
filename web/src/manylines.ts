// Hundreds of lines in one chart, as a picture of how many pass where: a canvas takes a second to stroke them, this some
// milliseconds. The crowd is dark, and one line outside of it is still seen.

import type uPlot from "uplot";

type Values = (number | null | undefined)[];

const channel = (color: string, at: number): number => parseInt(color.slice(at, at + 2), 16);
/** How opaque one line alone is. */
const alone = 0.35;

/** How many lines pass each pixel, column by column. A line adds 1 where it enters a column and takes it off below. */
function passes(columns: Int32Array, lines: Values[], low: number, high: number, width: number, height: number): Int32Array {
  const tall = height + 1;
  const count = new Int32Array(tall * width);
  const mark = (column: number, a: number, b: number): void => {
    const first = a < b ? a : b;
    const last = a < b ? b : a;
    if (last < 0 || first >= height) return;
    count[column * tall + (first < 0 ? 0 : first)]++;
    count[column * tall + (last >= height ? height : last + 1)]--;
  };
  const scale = (height - 1) / (high - low);
  for (const values of lines) {
    let lastColumn = -1;
    let lastY = 0;
    for (let i = 0; i < columns.length; i++) {
      const v = values[i];
      const column = columns[i];
      if (v === null || v === undefined || column < 0 || column >= width) {
        lastColumn = -1;
        continue;
      }
      const y = Math.round((high - v) * scale);
      if (lastColumn < 0) mark(column, y, y);
      else if (column === lastColumn) mark(column, lastY, y);
      else {
        const slope = (y - lastY) / (column - lastColumn);
        let before = lastY;
        for (let c = lastColumn + 1; c <= column; c++) {
          const now = Math.round(lastY + slope * (c - lastColumn));
          mark(c, before, now);
          before = now;
        }
      }
      lastColumn = column;
      lastY = y;
    }
  }
  return count;
}

/** Paints the lines over the plotting area of a chart. */
export function paintCrowd(u: uPlot, lines: Values[], color: string): void {
  const width = Math.round(u.bbox.width);
  const height = Math.round(u.bbox.height);
  const { min, max } = u.scales.x;
  const { min: low, max: high } = u.scales.y;
  if (width < 2 || height < 2 || min == null || max == null || low == null || high == null || max <= min || high <= low) return;
  const columns = Int32Array.from(u.data[0], (v) => Math.round(((v - min) / (max - min)) * (width - 1)));
  const count = passes(columns, lines, low, high, width, height);
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const rgb = (channel(color, 5) << 16) | (channel(color, 3) << 8) | channel(color, 1);
  const shades = Uint32Array.from({ length: lines.length * 2 + 2 }, (_, n) => {
    const share = alone + (1 - alone) * Math.min(1, Math.log2(Math.max(1, n)) / Math.log2(Math.max(2, lines.length / 8)));
    return ((Math.round(255 * share) << 24) | rgb) >>> 0;
  });
  for (let c = 0; c < width; c++) {
    let n = 0;
    for (let y = 0, at = c * (height + 1); y < height; y++, at++) {
      n += count[at];
      if (n > 0) pixels[y * width + c] = shades[Math.min(n, shades.length - 1)];
    }
  }
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  u.ctx.drawImage(canvas, Math.round(u.bbox.left), Math.round(u.bbox.top));
}
