// A flame graph of `tracesmith sample` in a browser: zoom, search, states, and the difference of two ranks.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { test } from "node:test";
import { open, place, program, view as startViewer } from "./support.mjs";

const job = `
import sys, time
def busy():
    for i in range(100000): abs(1)
def nap(): time.sleep(float(sys.argv[1]))
def step():
    busy()
    nap()
print('ready', flush=True)
while True: step()
`;

const jobs = [];

/** A rank that sleeps for so many seconds in every step, once it runs. */
async function startRank(rank, seconds) {
  const child = spawn("python3", ["-c", job, String(seconds)], { env: { ...process.env, RANK: String(rank) }, stdio: ["ignore", "pipe", "inherit"] });
  jobs.push(child);
  await new Promise((resolve, reject) => {
    child.stdout.on("data", resolve);
    child.on("error", reject);
  });
  return String(child.pid);
}

const frame = (page, name) => page.locator("svg.f", { has: page.locator("text", { hasText: name }) }).first();
const widthOf = async (page, name) => (await frame(page, name).boundingBox())?.width ?? 0;

test("a flame graph zooms, searches and tells the states apart", async (t) => {
  t.after(() => jobs.forEach((child) => child.kill("SIGKILL")));
  let pids;
  try {
    pids = [await startRank(0, 0.002), await startRank(1, 0.02)];
  } catch (error) {
    return t.skip(`no Python here: ${error.message}`);
  }
  const file = place("ranks.sbt");
  execFileSync(program, ["sample", ...pids, "-d", "2", "-o", file]);
  execFileSync(program, ["sample", "--from", file, "-o", place("ranks.svg")]);
  execFileSync(program, ["sample", "--from", file, "--diff", "0", "1", "-o", place("diff.svg")]);

  const { page, close } = await open(`file://${place("ranks.svg")}`);
  const all = await widthOf(page, "all");
  assert.ok(all > 1200, `the root is ${all} px wide`);
  const before = await widthOf(page, "nap");
  assert.ok(before > 0 && before < 0.99 * all);
  assert.ok((await widthOf(page, "nap")) + (await widthOf(page, "busy")) <= 1.01 * (await widthOf(page, "step")));

  await frame(page, "nap").hover();
  await page.locator("#detail", { hasText: /^nap \(<string>\) — [\d,]+ samples?, [\d.]+ % of all; [\d.]+ % of them on CPU$/ }).waitFor();
  await frame(page, "nap").click();
  assert.ok(Math.abs((await widthOf(page, "nap")) - all) < 2, "zoomed in");
  assert.equal(await frame(page, "busy").isVisible(), false);
  await page.keyboard.press("Escape");
  assert.ok(Math.abs((await widthOf(page, "nap")) - before) < 2, "zoomed out");

  await page.keyboard.press("/");
  await page.keyboard.type("NAP");
  await page.locator("#found", { hasText: /^found in [\d.]+ %$/ }).waitFor();
  assert.equal(await page.locator("svg.f.m").count(), 1);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("svg.f.m").count(), 0);

  await page.locator("#mode").selectOption("second");
  assert.ok((await widthOf(page, "nap")) > before, "only what waits");
  await close();

  const diff = await open(`file://${place("diff.svg")}`, { colorScheme: "dark" });
  assert.equal(await diff.page.evaluate(() => getComputedStyle(document.querySelector("#back")).fill), "rgb(23, 25, 29)");
  assert.equal(await frame(diff.page, "nap").locator("rect").getAttribute("class"), "r");
  assert.equal(await frame(diff.page, "busy").locator("rect").getAttribute("class"), "b");
  await frame(diff.page, "nap").hover();
  await diff.page.locator("#detail", { hasText: /rank 0: [\d.]+ % of its time \(\d+\), rank 1: [\d.]+ %/ }).waitFor();
  await diff.close();

  // The same on the page: one rank, and what the other does differently.
  const viewer = await startViewer(file);
  const view = await open(`${viewer.url}/#/ranks`);
  const panel = view.page.locator(".stacks-panel");
  const box = (name) => panel.locator(".flame-call", { hasText: name }).first();
  await box("nap").waitFor();
  await box("nap").hover();
  await panel.locator("p[role=status]", { hasText: /^nap \(<string>\): [\d,]+ samples?, [\d.]+ % of all; \d+ % of them on the CPU/ }).waitFor();
  await box("nap").click();
  await box("busy").waitFor({ state: "detached" });
  await box("nap").click();
  await box("busy").waitFor();
  await panel.locator("select").first().selectOption("0");
  await panel.locator("select").nth(1).selectOption("1");
  await panel.locator("p[role=status]", { hasText: "Red: rank 1 does more of it; blue: rank 0." }).waitFor();
  await box("nap").hover();
  await panel.locator("p[role=status]", { hasText: /^nap \(<string>\): [\d.]+ % of the time of rank 0, [\d.]+ % of that of rank 1/ }).waitFor();
  const background = (name) => box(name).evaluate((element) => element.style.background);
  assert.match(await background("nap"), /--bad/);
  assert.match(await background("busy"), /--accent/);
  await view.close();
});
