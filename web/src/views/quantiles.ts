/** Quantiles across series, one value for each time; null where no series has a value. */
export function quantiles(series: (number | null)[][], times: number, shares: number[]): (number | null)[][] {
  const result = shares.map(() => new Array<number | null>(times).fill(null));
  const values = new Float64Array(series.length);
  for (let t = 0; t < times; t++) {
    let n = 0;
    for (const s of series) {
      const v = s[t];
      if (v !== null && v !== undefined) values[n++] = v;
    }
    if (!n) continue;
    const sorted = values.subarray(0, n).sort();
    shares.forEach((share, i) => (result[i][t] = sorted[Math.round(share * (n - 1))]));
  }
  return result;
}
