// A trace of PyTorch: kernels, operators and Python frames are all seen, and every hit of a search can be reached.

import assert from "node:assert/strict";
import fs from "node:fs";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { open, place, timelineReady, timelineSpan, view } from "./support.mjs";

const steps = 40;

/** As torch.profiler writes it with stacks: `pid` of a kernel is its GPU, annotations lie over the kernels. */
function torchTrace() {
  const events = [];
  const x = (cat, name, pid, tid, ts, dur, args = {}) => events.push({ ph: "X", cat, name, pid, tid, ts, dur, args });
  x("Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", 0, steps * 10_000);
  for (const pid of [0, 1, 2]) events.push({ ph: "M", name: "process_labels", pid, tid: 0, ts: 0, args: { labels: `GPU ${pid}` } });
  for (let step = 0; step < steps; ++step) {
    const at = step * 10_000;
    x("user_annotation", `ProfilerStep#${step}`, 77, 77, at, 9_900);
    x("user_annotation", "forward", 77, 77, at + 490, 600);
    x("user_annotation", "module: blocks.0.attn (Attention)", 77, 77, at + 495, 550);
    for (let frame = 0; frame < 20; ++frame) x("python_function", `model.py(${frame}): level_${frame}`, 77, 77, at + frame, 9_800 - 10 * frame);
    x("cpu_op", "aten::linear", 77, 77, at + 500, 500);
    x("cpu_op", "aten::addmm", 77, 77, at + 510, 400);
    x("cuda_runtime", "cudaLaunchKernel", 77, 77, at + 520, 10, { correlation: step + 1 });
    x("gpu_user_annotation", `ProfilerStep#${step}`, 0, 7, at + 1_000, 8_000, { device: 0, stream: 7 });
    x("kernel", "void at::native::add_kernel<4, at::native::Functor<float> >(int, at::Tensor)", 0, 7, at + 1_000, 3_000, { device: 0, stream: 7, correlation: step + 1 });
  }
  fs.writeFileSync(place("torch.json.gz"), gzipSync(JSON.stringify({ schemaVersion: 1, baseTimeNanoseconds: 1_751_410_836_000_000_000, traceEvents: events })));
  return place("torch.json.gz");
}

let served;
const trace = async () => (await (served ??= view(torchTrace()))).url;
const hash = (page, key) => page.evaluate((k) => new URLSearchParams(location.hash.split("?")[1]).get(k), key);

test("a trace of PyTorch is one process, with its kernels, operators and frames on rows of their own", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  assert.deepEqual(await page.locator(".row-label.group").allInnerTexts().then((list) => list.map((t) => t.replace(/\s+/g, " ").trim())), ["▾ pid 77"]);
  const rows = (await page.locator(".row-label.track").allInnerTexts()).map((t) => t.replace(/[▸▾]/g, "").trim());
  for (const row of ["steps", "GPU 0 stream 7: ranges", "GPU 0 stream 7", "thread 77", "thread 77: Python"]) assert.ok(rows.includes(row), `${row} in ${rows.join(", ")}`);
  // Python's frames are folded until they are wanted.
  const python = page.locator(".row-label.track", { hasText: "thread 77: Python" });
  assert.equal(await python.getAttribute("aria-expanded"), "false");
  const folded = (await python.boundingBox()).height;
  await python.click();
  await page.waitForFunction(() => [...document.querySelectorAll(".row-label.track")].some((e) => /Python/.test(e.textContent) && e.getAttribute("aria-expanded") === "true"));
  assert.ok((await python.boundingBox()).height > 4 * folded);
  await page.locator("nav .title", { hasText: "torch.json.gz" }).waitFor();
  await close();
});

test("a kernel leads to its launch, at the level it lies on", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline?q=add_kernel`);
  await timelineReady(page);
  await page.locator(".search-says", { hasText: `${steps} hits` }).waitFor();
  await page.getByRole("button", { name: "Next hit" }).click();
  await page.locator(".dock h2", { hasText: "add_kernel" }).waitFor();
  await page.locator(".dock-list button.link", { hasText: "cudaLaunchKernel" }).click();
  await page.locator(".dock h2", { hasText: "cudaLaunchKernel" }).waitFor();
  // In the step, in its phase and module, in linear, in addmm.
  await page.waitForFunction(() => /^\d+_\d+_\d+_5_/.test(new URLSearchParams(location.hash.split("?")[1]).get("sel")));
  await close();
});

test("hits come in the order of time, from what is in sight, around the end, and narrowed by a filter", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline?q=aten`);
  await timelineReady(page);
  const says = (text) => page.locator(".search-says", { hasText: text }).waitFor();
  await says(`${2 * steps} hits`);
  const next = page.getByRole("button", { name: "Next hit" });
  await next.click();
  await says(`1 of ${2 * steps}`);
  await next.click();
  await says(`2 of ${2 * steps}`);
  await page.getByRole("button", { name: "Previous hit" }).click();
  await says(`1 of ${2 * steps}`);
  await page.getByRole("button", { name: "Previous hit" }).click();
  await says(`${2 * steps} of ${2 * steps}`);
  // From the last one, somewhere else: the next one from there.
  await page.evaluate(() => {
    const p = new URLSearchParams(location.hash.split("?")[1]);
    p.set("from", "100000000");
    p.set("to", "110000000");
    location.hash = `#/timeline?${p}`;
  });
  await page.locator(".timeline[data-from='100000000']").waitFor();
  await next.click();
  await says(`21 of ${2 * steps}`);
  await page.getByRole("button", { name: /^Filter/ }).click();
  await page.getByLabel("Shortest duration").fill("450 µs");
  await page.keyboard.press("Tab");
  await says(`${steps} hits`);
  await page.getByLabel("Type of events").selectOption("kernel");
  await says("0 hits");
  await close();
});

test("a zoom is undone by going back, and marks with their notes are in the link", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  const whole = await timelineSpan(page);
  await page.keyboard.press("w");
  await page.keyboard.press("w");
  await page.waitForFunction(() => /from=/.test(location.hash));
  assert.ok((await timelineSpan(page)) < whole);
  await page.goBack();
  await page.waitForFunction((n) => Number(document.querySelector(".timeline").dataset.to) - Number(document.querySelector(".timeline").dataset.from) >= n * 0.999, whole);
  await page.keyboard.press("m");
  const note = page.locator(".markers input");
  await note.fill("here it begins");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /here\+it\+begins/.test(location.hash));
  const again = await open(page.url());
  await again.page.waitForFunction(() => document.querySelector(".markers input")?.value === "here it begins");
  await again.close();
  assert.match(await hash(page, "m"), /^\d+:here it begins$/);
  await close();
});

test("the GPU time of a part is told by phase and module, and by what lies in what", async () => {
  const url = await trace();
  const info = await (await fetch(`${url}/api/v1/traces/file/timeline`)).json();
  const { page, close } = await open(`${url}/#/timeline?area=0_${info.duration_ns}_0_${info.tracks.length - 1}&tab=ranges`);
  const line = page.getByRole("region", { name: "GPU time by phase and module" }).locator("tbody tr").first();
  await line.waitFor();
  assert.match(await line.innerText(), /forward\s+blocks\.0\.attn \(Attention\)\s+120 ms\s+100\.0 %\s+40/);
  await page.getByRole("button", { name: "Flame" }).click();
  // The kernel in the range of its GPU; the operator in the module.
  const flame = page.getByRole("tree", { name: "What lies in what" });
  await flame.locator("button.top", { hasText: "GPU: 120 ms" }).waitFor();
  await flame.locator("button", { hasText: "aten::addmm" }).first().waitFor();
  await close();
});
