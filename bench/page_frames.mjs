// How smooth the page is, in a real Chromium: time between frames and long tasks of the main thread, while the timeline
// is panned and zoomed and metrics are zoomed. Pictures of what was seen go to a folder.
//   PAGE_MODULES=build/web CHROMIUM=$(command -v chromium) node bench/page_frames.mjs URL [FOLDER [PARAMETERS]]
// URL: of `tracesmith view FILE --web`, or of a master. PARAMETERS: of the timeline, such as by=track.

import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";

const require = createRequire(path.join(fs.realpathSync(process.env.PAGE_MODULES), "package.json"));
const { chromium } = require("playwright-core");
const [address, folder, more = ""] = process.argv.slice(2);
const url = address.replace(/\/$/, "");
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });

const at = (list, share) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * share))] ?? 0;

/** Frames and long tasks of the page while `act` goes on. */
async function watch(page, what, act) {
  await page.evaluate(() => {
    const seen = (window.seen = { frames: [], long: [], on: true });
    let last = performance.now();
    const frame = (now) => {
      seen.frames.push(now - last);
      last = now;
      if (seen.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    new PerformanceObserver((list) => seen.long.push(...list.getEntries().map((e) => e.duration))).observe({ entryTypes: ["longtask"] });
  });
  await act();
  const { frames, long } = await page.evaluate(() => {
    window.seen.on = false;
    return { frames: window.seen.frames.slice(1), long: window.seen.long };
  });
  const ms = (n) => n.toFixed(0).padStart(4);
  console.log(`${what.padEnd(34)} ${String(frames.length).padStart(4)} frames: median ${ms(at(frames, 0.5))} ms, p95 ${ms(at(frames, 0.95))} ms, most ${ms(at(frames, 1))} ms; ${long.length} long tasks, longest ${ms(at(long, 1))} ms`);
}

async function open(hash, size) {
  const page = await browser.newPage({ viewport: size });
  await page.goto(`${url}/#/${hash}`);
  return page;
}
const picture = async (page, name) => folder && page.screenshot({ path: path.join(folder, `${name}.png`) });
const settled = (page) => page.locator(".timeline[data-missing='0']").waitFor({ timeout: 120_000 });
const pause = (page, ms) => page.evaluate((n) => new Promise((done) => setTimeout(done, n)), ms);
const hold = async (page, key, ms) => {
  await page.keyboard.down(key);
  await pause(page, ms);
  await page.keyboard.up(key);
};

const { mode } = await (await fetch(`${url}/api/v1/info`)).json();
for (const size of [{ width: 1440, height: 900 }, { width: 3840, height: 2160 }]) {
  const name = `${size.width}`;
  const names = (await (await fetch(`${url}/api/v1/metrics/names`)).json()).metrics;
  if (names.length) {
    const began = Date.now();
    const page = await open("metrics?range=3600", size);
    await page.locator(".chart-panel canvas").first().waitFor({ timeout: 120_000 });
    await pause(page, 500);
    console.log(`${name}: metrics are there ${Date.now() - began} ms after the page was asked for`);
    for (const look of ["heat", "lines", "bands"]) {
      await page.goto(`${url}/#/metrics?range=3600&look=${look}`);
      await page.locator(".chart-panel canvas").first().waitFor();
      await pause(page, 1000);
      const box = await page.locator(".chart-panel canvas").first().boundingBox();
      const y = box.y + box.height / 2;
      await watch(page, `${name}: metrics as ${look}, pointer`, async () => {
        for (let i = 0; i < 40; i++) await page.mouse.move(box.x + box.width * (0.2 + 0.015 * i), y + (i % 5) * 4);
      });
      await watch(page, `${name}: metrics as ${look}, zoom`, async () => {
        await page.mouse.move(box.x + box.width * 0.4, y);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.6, y, { steps: 8 });
        await page.mouse.up();
        await pause(page, 1500);
      });
      await picture(page, `metrics-${look}-${name}`);
    }
    await page.close();
  }
  const traces = (await (await fetch(`${url}/api/v1/traces`)).json()).traces;
  if (traces.length && (traces[0].events ?? 1) > 0) {
    const page = await open(`timeline?trace=${traces[0].id}&${more}`, size);
    await settled(page);
    await picture(page, `timeline-${name}`);
    await watch(page, `${name}: zoom in, W held`, () => hold(page, "w", 2500));
    await settled(page);
    await watch(page, `${name}: pan, D held`, () => hold(page, "d", 2500));
    await settled(page);
    await picture(page, `timeline-near-${name}`);
    await watch(page, `${name}: pan by wheel`, async () => {
      const box = await page.locator("canvas.tracks").boundingBox();
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
      for (let i = 0; i < 40; i++) await page.mouse.wheel(0, i % 20 < 10 ? 60 : -60);
    });
    await watch(page, `${name}: zoom out, S held`, () => hold(page, "s", 2500));
    await settled(page);
    await page.close();
  }
  if (folder)
    for (const view of mode === "cluster" ? ["overview", "nodes", "hang", "sql", "ranks"] : ["overview", "ranks", "sql"]) {
      const page = await open(view, size);
      await page.locator("main > :not(h1)").first().waitFor();
      await pause(page, 2500);
      await picture(page, `${view}-${name}`);
      await page.close();
    }
}
await browser.close();
