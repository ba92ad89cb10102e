// The rows of the timeline as one wants them: filtered, pinned, ordered, aligned; statistics of a part; a query as a track.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, place, synth, timelineReady, view } from "./support.mjs";

let served;
const ranks = 12;
async function trace() {
  served ??= view(synth(place("rows.sbt"), "--events", "60000", "--ranks", String(ranks), "--gpus-per-node", "4", "--seed", "3", "--fault", "slow-gpu=5:1.4"));
  return (await served).url;
}
const params = (page) => page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.split("?")[1])));
const groups = (page) => page.locator(".row-label.group").allInnerTexts().then((list) => list.map((t) => t.replace(/[▸▾]/g, "").trim()));

test("only the ranks that are asked for are shown, and opened", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  await page.getByLabel("Show only some tracks").fill("rank 1, rank 5");
  await page.waitForFunction(() => document.querySelectorAll(".row-label.group").length === 2);
  assert.deepEqual(await groups(page), ["rank 1", "rank 5"]);
  assert.equal(await page.locator(".row-label.group[aria-expanded='true']").count(), 2);
  await page.getByLabel("Show only some tracks").fill("rank 1 / nothing");
  await page.waitForFunction(() => document.querySelectorAll(".row-label").length === 0);
  await close();
});

test("a pinned track stays in sight, and in the link", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline?rows=rank+5`, { viewport: { width: 1280, height: 460 } });
  await timelineReady(page);
  const stream = page.locator(".row-label.track:not(.pinned)", { hasText: /GPU \d stream/ }).first();
  await stream.hover();
  await page.getByRole("button", { name: `Pin ${(await stream.innerText()).replace(/[▸▾]/g, "").trim()}` }).first().click();
  const pinned = page.locator(".row-label.pinned");
  await pinned.waitFor();
  assert.match(await pinned.innerText(), /rank 5 · GPU \d stream/);
  await page.getByLabel("Show only some tracks").fill("");
  const first = page.locator(".row-label.group", { hasText: /^\S*\s*rank 0$/ });
  await first.waitFor();
  const before = await pinned.boundingBox();
  await page.locator(".scroller").evaluate((e) => e.scrollTo(0, e.scrollHeight));
  await first.waitFor({ state: "detached" });
  assert.ok(Math.abs((await pinned.boundingBox()).y - before.y) < 2);
  const again = await open(page.url());
  await again.page.locator(".row-label.pinned").waitFor();
  await again.close();
  await page.getByRole("button", { name: /^Unpin/ }).click();
  await pinned.waitFor({ state: "detached" });
  await close();
});

test("the same track of all ranks is together, and ranks are in the order of what they cost", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  const order = page.getByLabel("Order of the tracks");
  await order.selectOption("track");
  await page.locator(".row-label.group", { hasText: `steps of ${ranks} ranks` }).waitFor();
  await page.locator(".row-label.group", { hasText: /GPU stream \d+ of/ }).first().waitFor();
  // Opened, each rank has its name.
  await page.locator(".row-label.group", { hasText: "steps of" }).click();
  await page.locator(".row-label.track", { hasText: /^rank 11 · node2$/ }).waitFor();
  await timelineReady(page);
  await order.selectOption("cost");
  await page.waitForFunction(() => /rank 5$/.test(document.querySelector(".row-label.group")?.textContent ?? ""));
  await close();
});

test("steps are in the ruler, and ranks can be aligned at one of them", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline?rows=rank+2`);
  await timelineReady(page);
  await page.waitForFunction(() => Number(document.querySelector(".timeline").dataset.steps) > 1);
  await page.getByLabel("Order of the tracks").selectOption("align");
  await page.waitForFunction(() => /align=/.test(location.hash));
  assert.match((await params(page)).align, /\d/);
  await timelineReady(page);
  await page.locator("select[aria-label='Order of the tracks'] option:checked", { hasText: "aligned at" }).waitFor({ state: "attached" });
  await page.getByLabel("Order of the tracks").selectOption("rank");
  await page.waitForFunction(() => !/align=/.test(location.hash));
  await close();
});

test("of a part there are names, what lies in what, and the difference of two ranks", async () => {
  const url = await trace();
  const info = await (await fetch(`${url}/api/v1/traces/file/timeline`)).json();
  const first = info.tracks.findIndex((t) => t.rank === 4);
  const last = info.tracks.findLastIndex((t) => t.rank === 5);
  const area = [0, info.duration_ns / 2, first, last].map(Math.round).join("_");
  const { page, close } = await open(`${url}/#/timeline?area=${area}`);
  await page.getByRole("region", { name: "Statistics by name" }).locator("tbody tr").first().waitFor();
  await page.getByRole("button", { name: "Ranks" }).click();
  const table = page.getByRole("region", { name: "Statistics by rank" });
  await table.locator("th", { hasText: "difference" }).waitFor();
  // The slow rank spends longer in its kernels.
  assert.match(await table.locator("tbody tr", { hasText: /kernel/ }).first().innerText(), /[+−]/);
  await page.getByRole("button", { name: "Flame" }).click();
  const flame = page.getByRole("tree", { name: "What lies in what" });
  const top = flame.locator("button.top", { hasText: "GPU" });
  await top.waitFor();
  const part = flame.locator("button[aria-level='2']").first();
  const width = (await part.boundingBox()).width;
  await part.click();
  await page.waitForFunction((before) => document.querySelector(".flame button[aria-level='2']").getBoundingClientRect().width > before, width);
  await close();
});

test("the rows of a query are a track", async () => {
  const sql = "SELECT ts, dur, name, rank FROM events WHERE type = 'kernel' ORDER BY dur DESC LIMIT 7";
  const { page, close } = await open(`${await trace()}/#/sql?q=${encodeURIComponent(sql)}`);
  await page.getByRole("link", { name: "As a track" }).click();
  await page.locator(".row-label.pinned", { hasText: "SQL: 7 rows" }).waitFor();
  await timelineReady(page);
  await close();
});

test("the slowest steps and kernels that took unusually long lead to their moments", async () => {
  const { url } = await view(synth(place("pauses.sbt"), "--events", "60000", "--ranks", "4", "--gpus-per-node", "4", "--seed", "7", "--fault", "checkpoint=4:60"));
  const { page, close } = await open(url);
  const slow = page.getByRole("region", { name: "Slowest steps" });
  await slow.locator("tbody tr").first().waitFor();
  assert.match(await slow.locator("tbody tr").first().innerText(), /step \d+.*\+\d+.* %/s);
  await slow.locator("tbody a").first().click();
  await timelineReady(page);
  await page.waitForFunction(() => /from=/.test(location.hash));
  await close();
});
