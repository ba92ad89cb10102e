// Two traces in one timeline, one above the other; and time in which nothing was recorded.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { test } from "node:test";
import { open, place, program, synth, timelineReady, view } from "./support.mjs";

let served;
async function traces() {
  const job = ["--events", "30000", "--ranks", "4", "--gpus-per-node", "4", "--seed", "3"];
  served ??= view(synth(place("before.sbt"), ...job, "--fault", "none"), "--with", synth(place("after.sbt"), ...job, "--fault", "slow-gpu=2:1.5"));
  return (await served).url;
}
const hash = (page) => page.evaluate(() => location.hash);

test("from Compare two runs come above each other, aligned at a step, with the difference by name", async () => {
  const { page, close } = await open(`${await traces()}/#/compare`);
  await page.getByRole("link", { name: "Both in the timeline" }).click();
  await timelineReady(page);
  for (const run of ["before", "after"]) await page.locator(".row-label.node", { hasText: run }).waitFor();
  const table = page.getByRole("region", { name: "Difference by name" });
  await table.locator("th", { hasText: "difference" }).waitFor();
  assert.match(await table.locator("tbody tr", { hasText: "kernel" }).first().innerText(), /[+−]\d/);
  assert.match(await page.locator(".dock h2").innerText(), /Step#\d+/);
  await close();
});

test("two runs in a link are restored, a part of both is compared, and an event of the lower one is explained", async () => {
  const url = await traces();
  const info = (id) => fetch(`${url}/api/v1/traces/${id}/timeline`).then((r) => r.json());
  const [first, second] = await Promise.all(["file", "other"].map(info));
  const area = [0, first.duration_ns / 2, 0, first.tracks.length + second.tracks.length - 1].map(Math.round).join("_");
  const { page, close } = await open(`${url}/#/timeline?trace=file&with=other&rows=rank+2&area=${area}`);
  await timelineReady(page);
  const table = page.getByRole("region", { name: "Difference by name" });
  await table.locator("tbody tr").first().waitFor();
  // The rank that is slow in the second run: its own kernels take longer there, and it waits less in collectives.
  await table.locator("tbody tr", { hasText: /gemm[\s\S]*kernel[\s\S]*\+\d/ }).first().waitFor();
  await table.locator("tbody tr", { hasText: /AllReduce[\s\S]*−\d/ }).first().waitFor();
  assert.match(await page.locator(".area-summary .fine").first().innerText(), new RegExp(`^${[...first.tracks, ...second.tracks].filter((t) => t.rank === 2).length} tracks`));
  // An event of the second run, by its link.
  const steps = second.tracks.find((t) => t.rank === 2 && t.kind === "steps");
  const { hits } = await fetch(`${url}/api/v1/traces/other/search?q=step&type=step&tracks=${steps.id}`).then((r) => r.json());
  const hit = hits[1];
  await page.goto(`${url}/#/timeline?trace=file&with=other&sel=${1_000_000 + steps.id}_${hit.ts_rel}_${hit.dur}_0_${hit.row_id}`);
  await page.locator(".dock .event h2", { hasText: hit.name }).waitFor();
  await page.locator(".dock .facts dd", { hasText: "after" }).waitFor();
  // And back to one.
  await page.getByLabel("Trace below").selectOption("");
  await page.locator(".row-label.node", { hasText: "after" }).waitFor({ state: "detached" });
  assert.doesNotMatch(await hash(page), /with=/);
  await close();
});

test("time in which a GPU was not recorded is no idleness", async () => {
  const ms = 1000;
  const events = [];
  const add = (cat, name, ts, dur, args = {}) => events.push({ ph: "X", cat, name, pid: 1, tid: cat === "kernel" ? 7 : 1, ts, dur, args });
  for (let step = 0; step < 10; ++step) {
    add("user_annotation", `ProfilerStep#${step}`, step * 10 * ms, 10 * ms);
    // Recorded in the first two steps and the last two.
    if (step < 2 || step > 7) add("kernel", "gemm", step * 10 * ms + 1000, 9 * ms, { device: 0, stream: 7 });
  }
  for (const [name, ts] of [["off", 20], ["on", 80]]) events.push({ ph: "i", s: "t", cat: "marker", name: `tracesmith: GPU records ${name}`, pid: 1, tid: 1, ts: ts * ms });
  fs.writeFileSync(place("watch.json"), JSON.stringify({ traceEvents: events }));
  execFileSync(program, ["import", place("watch.json"), "-o", place("watch.sbt")]);
  const { url } = await view(place("watch.sbt"));
  const info = await (await fetch(`${url}/api/v1/traces/file/timeline`)).json();
  assert.deepEqual(info.gaps.map((g) => [g.from, g.to]), [[20e6, 80e6]]);
  const track = info.tracks.find((t) => t.kind === "stream");
  const stats = await (await fetch(`${url}/api/v1/traces/file/stats?from=0&to=${info.duration_ns}&tracks=${track.id}`)).json();
  assert.ok(stats.busy_share > 0.85, `busy for ${stats.busy_share} of what was recorded`);
  const { page, close } = await open(`${url}/#/timeline`);
  await timelineReady(page);
  const label = await page.locator(".row-label.track", { hasText: /stream/ }).first().boundingBox();
  const canvas = await page.locator("canvas.tracks").boundingBox();
  await page.mouse.move(canvas.x + canvas.width / 2, label.y + label.height / 2);
  await page.locator(".tip", { hasText: "Not recorded" }).waitFor();
  await close();
});
