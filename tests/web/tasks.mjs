// The tasks of docs/tasks.md, each in at most three clicks or one command.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { test } from "node:test";
import { open, place, program, shows, startAgent, startMaster, synth, timelineReady, view, visit } from "./support.mjs";

const fault = ["--fault", "slow-gpu=2:1.5"];
const file = (name, ...more) => (fs.existsSync(place(name)) ? place(name) : synth(place(name), "--events", "30000", "--ranks", "4", "--gpus-per-node", "4", "--seed", "5", ...more));
let served;
const page = async (hash = "") => open(`${(await (served ??= view(file("slow.sbt", ...fault)))).url}/${hash}`);

/** Counts clicks, so that no task takes more than the table says. */
function clicks(most) {
  let n = 0;
  return async (locator) => {
    assert.ok(++n <= most, `more than ${most} clicks`);
    await locator.click();
  };
}

test("1: why the job is slow is said without a click", async () => {
  const { page: p, close } = await page();
  await shows(p, /Rank 2 on node0 cost the job/);
  await p.locator(".verdict-next", { hasText: "What to do" }).waitFor();
  await p.locator(".losses li", { hasText: "Rank 2" }).waitFor();
  await close();
});

test("2 and 3: a kernel, and the call that launched it", async () => {
  const { page: p, close } = await page();
  const click = clicks(3);
  const kernel = p.getByRole("region", { name: "Largest kernels" }).locator("tbody a").first();
  const name = (await kernel.innerText()).trim();
  await click(kernel);
  await timelineReady(p);
  await p.locator(".search-says", { hasText: "hits" }).waitFor();
  await click(p.getByRole("button", { name: "Next hit" }));
  await p.locator(".dock h2", { hasText: name }).waitFor();
  await click(p.locator(".dock-list button.link", { hasText: /Launch/ }).first());
  await p.locator(".dock h2", { hasText: /Launch/ }).waitFor();
  await close();
});

test("4 and 5: the worst collective, and who came last to it", async () => {
  const { page: p, close } = await page();
  const worst = p.getByRole("region", { name: "Worst collectives" }).locator("tbody tr").first();
  assert.match(await worst.innerText(), /rank 2/);
  await clicks(1)(worst.getByRole("link"));
  await timelineReady(p);
  await p.waitForFunction(() => /from=/.test(location.hash));
  await close();
});

test("6: who hangs, from any view", async () => {
  const master = await startMaster("tasks");
  await startAgent(master, "tasks0", 0, ["--fault", "hang=2:20"], 4);
  const { page: p, close } = await open(`${master.url}/#/metrics`);
  const badge = p.locator("nav .badge.hangs");
  await badge.waitFor();
  await p.waitForFunction(() => /Hang/.test(document.title));
  await clicks(1)(badge);
  await shows(p, "The job hangs.");
  await p.locator(".rank-dots .missing", { hasText: /^2$/ }).first().waitFor();
  // 8: a session is started and stopped.
  await visit(p, "#/overview");
  const click = clicks(2);
  await p.getByLabel("Name of a new session").fill("task");
  await click(p.getByRole("button", { name: "Start", exact: true }));
  await click(p.getByRole("button", { name: "Stop task" }));
  await p.locator(".session", { hasText: "task" }).locator(".chip", { hasText: /^complete$/ }).waitFor();
  await close();
});

test("7: the result of a query is drawn, sorted, and a row leads to its moment", async () => {
  const { page: p, close } = await page();
  const click = clicks(3);
  await click(p.getByRole("link", { name: "SQL", exact: true }).first());
  await click(p.locator(".query-list button", { hasText: "Kernels by time" }));
  await p.locator(".result tbody tr").first().waitFor();
  await click(p.getByRole("button", { name: "Chart" }));
  await p.locator(".result-chart .bars li").first().waitFor();
  await visit(p, `#/sql?q=${encodeURIComponent("SELECT ts, dur, rank, name FROM events WHERE type = 'kernel' ORDER BY ts LIMIT 5")}`);
  await p.reload();
  await p.locator(".result tbody tr").nth(4).waitFor();
  const durations = async () => (await p.locator(".result tbody tr td:nth-child(3)").allInnerTexts()).map(Number);
  await p.locator(".result th", { hasText: "dur" }).click();
  await p.locator(".result th[aria-sort='descending']").waitFor();
  const sorted = await durations();
  assert.deepEqual(sorted, [...sorted].sort((a, b) => b - a));
  await p.locator(".result tbody a").first().click();
  await timelineReady(p);
  await p.waitForFunction((dur) => {
    const t = document.querySelector(".timeline");
    return Number(t.dataset.to) - Number(t.dataset.from) <= 4 * dur;
  }, sorted[0]);
  await close();
});

test("9: two runs are compared by one command, or on the page", async () => {
  const before = file("fine.sbt", "--fault", "none");
  const text = execFileSync(program, ["diff", before, file("slow.sbt", ...fault)], { encoding: "utf8" });
  assert.match(text, /slower|longer/);
  const both = await view(before, "--with", file("slow.sbt", ...fault));
  const { page: p, close } = await open(both.url);
  await clicks(1)(p.getByRole("link", { name: "Compare", exact: true }));
  await p.locator(".verdict", { hasText: /rank 2/i }).waitFor();
  await p.getByRole("region", { name: "Parts of a step" }).locator("tbody tr", { hasText: "rank 2" }).first().waitFor();
  // Either of them can be looked at.
  await p.getByRole("link", { name: "Timeline after" }).click();
  await timelineReady(p);
  await p.getByLabel("Trace", { exact: true }).waitFor();
  await close();
});

test("10: the trace is downloaded", async () => {
  const { page: p, close } = await page();
  const click = clicks(2);
  await click(p.getByRole("link", { name: "Timeline", exact: true }).first());
  await timelineReady(p);
  const download = p.waitForEvent("download");
  await click(p.getByRole("button", { name: "Perfetto file" }));
  assert.ok(fs.statSync(await (await download).path()).size > 10_000);
  await close();
});

test("an address that is not there says what there is", async () => {
  const { page: p, close } = await page("#/timelnie");
  await shows(p, "There is no page “timelnie”");
  await p.locator(".state a", { hasText: "Timeline" }).click();
  await timelineReady(p);
  await close();
});
