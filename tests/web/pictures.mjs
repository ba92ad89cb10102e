// The pictures of docs/images: every view, light and dark, of traces that `synth` makes. Run by scripts/pictures.

import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { open, place, shows, startAgent, startMaster, synth, timelineReady, view } from "./support.mjs";

const folder = process.env.PICTURES;
const size = { width: 1280, height: 800 };

async function take(url, name, hash, ready) {
  for (const colorScheme of ["light", "dark"]) {
    const { page, close } = await open(`${url}/#/${hash}`, { viewport: size, colorScheme });
    await ready(page);
    await page.evaluate(() => new Promise((done) => setTimeout(done, 600)));
    await page.screenshot({ path: path.join(folder, `${name}${colorScheme === "dark" ? "-dark" : ""}.png`) });
    await close();
  }
}

test("pictures of a trace", { skip: !folder && "PICTURES names no folder" }, async () => {
  fs.mkdirSync(folder, { recursive: true });
  const { url } = await view(synth(place("job.sbt"), "--events", "200000", "--ranks", "16", "--gpus-per-node", "8", "--seed", "3", "--fault", "slow-gpu=6:1.25"));
  await take(url, "diagnosis", "overview", (p) => p.locator(".time-bars li").first().waitFor());
  await take(url, "timeline", "timeline?q=AllReduce", async (p) => {
    await timelineReady(p);
    await p.locator(".search-says", { hasText: "hits" }).waitFor();
    for (let i = 0; i < 40; i++) await p.getByRole("button", { name: "Next hit" }).click();
    await p.locator(".dock .collective", { hasText: "arrived last" }).waitFor();
    for (let i = 0; i < 12; i++) await p.keyboard.press("s");
    await timelineReady(p);
  });
  await take(url, "together", "timeline?by=track", timelineReady);
  await take(url, "ranks", "ranks", (p) => p.locator(".verdict-next").waitFor());
  await take(url, "metrics", "metrics", (p) => p.locator(".chart-panel canvas").first().waitFor());
  await take(url, "sql", `sql?look=chart&q=${encodeURIComponent("SELECT name, round(sum(dur) / 1e6, 2) AS ms FROM events WHERE type = 'kernel' GROUP BY name ORDER BY ms DESC LIMIT 12")}`, (p) => p.locator(".result-chart").waitFor());
});

test("pictures of a cluster", { skip: !folder && "PICTURES names no folder" }, async () => {
  const master = await startMaster("pictures", ["--freeze", "20"]);
  const at = String(Math.floor(Date.now() / 1000));
  for (const i of [0, 1]) await startAgent(master, `node${i}`, i, ["--sim-start", at, "--fault", "hang=6:700"]);
  await take(master.url, "overview", "overview", async (p) => {
    await shows(p, "2 nodes, 8 GPUs");
    await p.waitForFunction(() => document.querySelectorAll(".grid-rows .cell").length === 8 && !document.querySelector(".grid-rows .cell.unknown"));
    await shows(p, "Training now");
    await p.evaluate(() => new Promise((done) => setTimeout(done, 6000))); // some of the chart
  });
  await take(master.url, "nodes", "nodes", (p) => p.locator(".clock-charts .uplot canvas").first().waitFor());
  await take(master.url, "hang", "hang", async (p) => {
    await shows(p, "The job hangs.");
    await p.locator(".frozen li", { hasText: "hang-" }).waitFor();
    await p.locator(".chart-panel canvas").first().waitFor();
  });
});
