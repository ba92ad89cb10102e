// Real jobs of 4 ranks on one GPU, as their rings were left by the probe: FSDP and a pipeline.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gunzipSync } from "node:zlib";
import { open, place, program, timelineReady, view, visit } from "./support.mjs";

const recorder = path.join(path.dirname(program), "tests", "recorded_job");
const skip = !fs.existsSync(recorder) && "recorded_job was not built (make test builds it)";

/** The trace of the rings of a job; they are compressed twice, because a ring is mostly empty. */
async function recorded(name) {
  const from = fileURLToPath(new URL(`../data/rings/${name}`, import.meta.url));
  const folder = place(name);
  fs.mkdirSync(folder);
  for (const rank of [0, 1, 2, 3]) {
    const packed = path.join(folder, `${rank}.gz`);
    fs.writeFileSync(packed, gunzipSync(fs.readFileSync(path.join(from, `${rank}.ring.gz.gz`))));
    execFileSync("sh", ["-c", `gzip -dc ${packed} | cp --sparse=always /dev/stdin ${folder}/${rank}.ring`]);
    fs.rmSync(packed);
  }
  execFileSync(recorder, [folder, place(`${name}.sbt`)]);
  fs.rmSync(folder, { recursive: true });
  return view(place(`${name}.sbt`));
}

/** Every rank has its streams and its steps, and what was looked for is found and explained. */
async function looked(url, search, about) {
  const { page, close } = await open(url);
  await page.locator(".time-bars li").nth(3).waitFor();
  assert.equal(await page.locator(".time-bars li").count(), 4);
  await page.getByRole("region", { name: "Largest kernels" }).locator("tbody tr").first().waitFor();
  await visit(page, `#/timeline?q=${search}&rows=rank+3`);
  await timelineReady(page);
  await page.locator(".row-label.group", { hasText: "rank 3" }).waitFor();
  assert.ok((await page.locator(".row-label.track", { hasText: /stream/ }).count()) >= 1);
  await page.locator(".search-says", { hasText: /[1-9]\d* hits?/ }).waitFor();
  await page.getByRole("button", { name: "Next hit" }).click();
  await page.locator(".dock h2", { hasText: about }).waitFor();
  await visit(page, "#/ranks");
  await page.locator(".verdict").waitFor();
  await page.getByText("Communication, rank to rank").first().waitFor();
  await close();
}

test("a real FSDP job: its gathers and scatters, and who waited", { skip }, async () => {
  const { url } = await recorded("fsdp");
  await looked(url, "ReduceScatter", /ReduceScatter/);
  const { page, close } = await open(url);
  await page.getByRole("region", { name: "Worst collectives" }).locator("tbody tr", { hasText: /all_gather|reduce_scatter/ }).first().waitFor();
  await close();
});

test("a real pipeline: its sends and receives", { skip }, async () => {
  const { url } = await recorded("pp-raw");
  await looked(url, "SendRecv", /SendRecv/);
});
