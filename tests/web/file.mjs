// A recorded trace: every view, from the whole to one kernel, by mouse and by keys.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import { test } from "node:test";
import { open, place, program, shows, synth, timelineReady, timelineSpan, view, visit } from "./support.mjs";

let served;
async function trace() {
  served ??= view(synth(place("job.sbt"), "--events", "60000", "--ranks", "8", "--gpus-per-node", "4", "--seed", "3", "--fault", "slow-gpu=5:1.3", "--fault", "slow-gpu=2:1.2"));
  return (await served).url;
}

test("the overview of a file names the slow rank and says that it is simulated", async () => {
  const { page, close } = await open(await trace());
  await shows(page, /Rank 5 on node1 cost the job/);
  await shows(page, "simulated data");
  await shows(page, "Where GPU time goes");
  await page.locator(".time-bars li", { hasText: "rank 5" }).waitFor();
  // The largest loss, and what would be saved, are links to where it can be seen.
  await page.locator(".losses li", { hasText: /^[\d.]+ %\s*Rank 5/ }).getByRole("link").click();
  await page.waitForFunction(() => location.hash.startsWith("#/timeline"));
  await page.locator(".row-label.group[aria-expanded='true']", { hasText: "rank 5" }).waitFor();
  await page.goBack();
  await page.locator(".step-chart a").nth(2).click();
  await page.waitForFunction(() => location.hash.startsWith("#/timeline"));
  await page.goBack();
  await shows(page, /0 records lost in this trace/);
  assert.equal(await page.getByRole("link", { name: "Hang", exact: true }).count(), 0);
  await close();
});

test("of one GPU alone the overview says what it waits for, its largest kernels and its start-up", async () => {
  const { url } = await view(synth(place("one.sbt"), "--events", "20000", "--ranks", "1", "--fault", "none"));
  const { page, close } = await open(url);
  await page.locator(".verdict p", { hasText: /(The GPU|of the time the GPU)/ }).first().waitFor();
  const time = page.getByRole("region", { name: "Where GPU time goes" });
  for (const what of ["computes", "only communicates", "only copies", "waits for data", "is idle"]) await time.getByText(what, { exact: true }).waitFor();
  const kernels = page.getByRole("region", { name: "Largest kernels" });
  await kernels.locator("tbody tr").first().waitFor();
  assert.ok((await kernels.locator("tbody tr").count()) > 5);
  assert.match(await kernels.locator("tbody tr").first().innerText(), /%.*(ms|µs)/s);
  await page.locator(".facts dt", { hasText: "start-up, not counted" }).waitFor();
  await close();
});

test("modules of the model have their GPU time, and the one that takes longer than its siblings is named", async () => {
  const events = [];
  for (let step = 0; step < 12; ++step) {
    const begin = step * 10_000;
    const x = (cat, name, tid, ts, dur, args = {}) => events.push({ ph: "X", cat, name, pid: 1, tid, ts: begin + ts, dur, args });
    x("user_annotation", `ProfilerStep#${step}`, 1, 0, 9_900);
    for (let block = 0; block < 4; ++block) {
      const correlation = step * 10 + block + 1;
      x("user_annotation", `module: blocks.${block}.attn (Attention)`, 1, 100 + 100 * block, 50);
      x("cuda_runtime", "cudaLaunchKernel", 1, 110 + 100 * block, 5, { correlation });
      x("kernel", "gemm", 7, 1_000 + 1_000 * block, block === 2 ? 900 : 450, { correlation, stream: 7, device: 0 });
    }
  }
  fs.writeFileSync(place("modules.json"), JSON.stringify({ traceEvents: events }));
  execFileSync(program, ["import", place("modules.json"), "-o", place("modules.sbt")]);
  const { url } = await view(place("modules.sbt"));
  const { page, close } = await open(url);
  const modules = page.getByRole("region", { name: "Modules of the model" });
  await modules.locator("tbody tr").first().waitFor();
  assert.match(await modules.locator("tbody tr").first().innerText(), /blocks\.\*\.attn \(Attention\) · blocks\.2\.attn takes 2\.0 ×/);
  await shows(page, /blocks\.2\.attn takes 2\.0 × its siblings/);
  await close();
});

test("the timeline goes from the whole trace to one kernel", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  const whole = await timelineSpan(page);
  assert.ok(whole > 1e6, `the whole trace has ${whole} ns`);
  // The rows of rank 2, and in them the first kernel that matches.
  await page.keyboard.press("/");
  await page.keyboard.type("sm90_xmma_gemm");
  await page.locator(".search-says", { hasText: /hits/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".dock h2", { hasText: "sm90_xmma_gemm" }).waitFor();
  await page.locator(".facts", { hasText: "stream" }).waitFor();
  await page.waitForFunction((before) => {
    const t = document.querySelector(".timeline");
    return Number(t.dataset.to) - Number(t.dataset.from) < before / 100;
  }, whole);
  await timelineReady(page);
  assert.ok(Number(await page.locator(".timeline").getAttribute("data-slices")) > 0, "kernels are drawn one by one");
  // The launch it came from is named, and one click away.
  const launch = page.locator(".dock-list button.link", { hasText: "cudaLaunchKernel" });
  await launch.click();
  await page.locator(".dock h2", { hasText: "cudaLaunchKernel" }).waitFor();
  // The address holds all of it.
  await page.waitForFunction(() => /sel=/.test(location.hash) && /from=/.test(location.hash));
  const again = await open(page.url());
  await again.page.locator(".dock h2", { hasText: "cudaLaunchKernel" }).waitFor();
  await again.close();
  await close();
});

test("keys move the timeline", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  const whole = await timelineSpan(page);
  const narrower = (than) => page.waitForFunction((n) => Number(document.querySelector(".timeline").dataset.to) - Number(document.querySelector(".timeline").dataset.from) < n, than);
  for (let i = 0; i < 4; i++) await page.keyboard.press("w");
  await narrower(whole * 0.6);
  const from = Number(await page.locator(".timeline").getAttribute("data-from"));
  await page.keyboard.press("d");
  await page.waitForFunction((n) => Number(document.querySelector(".timeline").dataset.from) > n, from);
  // Without a mouse: an event of the first track, then the one after it.
  await page.locator(".scroller").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => /sel=/.test(location.hash));
  const first = await page.evaluate(() => new URLSearchParams(location.hash.split("?")[1]).get("sel"));
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction((s) => new URLSearchParams(location.hash.split("?")[1]).get("sel") !== s, first);
  await page.keyboard.press("f");
  await narrower(whole / 100);
  await page.keyboard.press("0");
  await page.waitForFunction((n) => Number(document.querySelector(".timeline").dataset.to) - Number(document.querySelector(".timeline").dataset.from) >= n, whole * 0.999);
  await close();
});

test("a drag over tracks shows their statistics", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  const box = await page.locator("canvas.tracks").boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 90, { steps: 4 });
  await page.mouse.up();
  await page.locator(".dock h2", { hasText: "selected" }).waitFor();
  await page.locator(".dock tbody tr").first().waitFor();
  await shows(page, "kernel");
  await page.keyboard.press("Escape");
  await page.locator(".dock-hint").waitFor();
  await close();
});

test("a collective is joined across its ranks, and the last one is named", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  await page.keyboard.press("/");
  await page.keyboard.type("ncclDevKernel_AllReduce");
  await page.locator(".search-says", { hasText: /hits/ }).waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".dock .collective", { hasText: "arrived last" }).waitFor();
  assert.equal(await page.locator(".dock .collective li").count(), 8);
  await close();
});

test("ranks shows verdict, heat map, blame, matrix and topology", async () => {
  const { page, close } = await open(`${await trace()}/#/ranks`);
  await shows(page, /Rank 5 on node1 cost the job/);
  const first = page.getByRole("region", { name: "Cost of each rank" }).locator("tbody tr").first();
  await first.waitFor();
  assert.match(await first.innerText(), /rank 5/);
  // What a user acts on: the advice, and what else is slow.
  await page.locator(".verdict-next", { hasText: /What to do: Check clocks, power limit and temperature of GPU 1 of node1/ }).waitFor();
  await page.locator(".verdict-also li", { hasText: /Rank 2 on node0/ }).waitFor();
  await shows(page, "Steps × ranks");
  await shows(page, "Communication, rank to rank");
  await shows(page, "Topology");
  // A cell of the heat map leads to its step in the timeline, with the rank open.
  await page.locator("canvas[aria-label^='Steps by ranks']").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash.startsWith("#/timeline"));
  await page.locator(".row-label.group[aria-expanded='true']", { hasText: "rank 1" }).waitFor();
  await close();
});

test("A playbook fills in its statement and shows what it finds", async () => {
  const { page, close } = await open(`${await trace()}/#/sql`);
  await page.locator(".sql-side summary", { hasText: "Which GPU is slower than the others?" }).click();
  await page.getByRole("button", { name: "Who is slower", exact: true }).click();
  await page.locator(".sql-main", { hasText: "finding" }).waitFor();
  await page.locator(".sql-main td", { hasText: /GPU/ }).first().waitFor();
  await close();
});

test("SQL completes, runs, shows a chart, keeps a query and says what is wrong", async () => {
  const { page, close } = await open(`${await trace()}/#/sql`);
  const editor = page.locator("textarea.code");
  await page.locator(".schema summary", { hasText: "collectives" }).waitFor();
  await editor.fill("");
  await editor.pressSequentially("SELECT rank, count(*) AS n FROM eve");
  await page.getByRole("option", { name: /^events/ }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await editor.inputValue(), "SELECT rank, count(*) AS n FROM events");
  await editor.pressSequentially(" WHERE rank IS NOT NULL GROUP BY rank ORDER BY rank");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Enter");
  await shows(page, /^8 rows/);
  await page.waitForFunction(() => document.querySelectorAll(".result tbody tr").length === 8);
  await page.getByRole("button", { name: "Chart" }).click();
  await page.locator(".result-chart .uplot canvas").waitFor();
  await page.getByLabel("Name to save this query under").fill("events of each rank");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.locator(".query-list button", { hasText: "events of each rank" }).waitFor();
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "CSV" }).click();
  const csv = fs.readFileSync(await (await download).path(), "utf8");
  assert.equal(csv.trim().split("\n").length, 9, csv);
  await editor.fill("SELECT nothing FROM nowhere");
  await page.keyboard.press("Control+Enter");
  await page.locator(".sql-error", { hasText: "nowhere" }).waitFor();
  await close();
});

test("metrics of a file are drawn", async () => {
  const { page, close } = await open(`${await trace()}/#/metrics`);
  await page.locator(".chart-panel canvas").first().waitFor();
  await shows(page, /^8 GPUs/);
  await close();
});

test("the trace can be downloaded for Perfetto", async () => {
  const { page, close } = await open(`${await trace()}/#/timeline`);
  await timelineReady(page);
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Perfetto file" }).click();
  const file = await (await download).path();
  assert.ok(fs.statSync(file).size > 10_000);
  await close();
});

test("a file with a name that looks like HTML is shown as text", async () => {
  const name = "<img src=x onerror=alert(1)><script>alert(2)<!--.sbt";
  const { url } = await view(synth(place(name), "--events", "2000", "--ranks", "2"));
  const { page, close } = await open(url);
  await page.locator("nav .title", { hasText: name }).waitFor();
  for (const hash of ["#/timeline", "#/ranks", "#/sql", "#/overview"]) {
    await visit(page, hash);
    await page.locator("main > :not(h1)").first().waitFor();
    assert.equal(await page.locator("main img, main script, nav img, nav script").count(), 0);
  }
  await close();
});

test("everything can be reached by keyboard, with the focus in sight", async () => {
  const { page, close } = await open(await trace());
  await shows(page, "Where GPU time goes");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Skip to the view");
  const seen = [];
  for (let i = 0; i < 7; i++) {
    await page.keyboard.press("Tab");
    seen.push(
      await page.evaluate(() => {
        const e = document.activeElement;
        return { text: e.textContent.trim(), outline: getComputedStyle(e).outlineStyle };
      }),
    );
  }
  for (const name of ["Overview", "Metrics", "Timeline", "Ranks", "SQL"]) assert.ok(seen.some((s) => s.text === name), `${name} in ${JSON.stringify(seen)}`);
  for (const s of seen) assert.notEqual(s.outline, "none", `${s.text} shows its focus`);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("3");
  await page.waitForFunction(() => location.hash.startsWith("#/timeline"));
  await close();
});

test("light and dark follow the system until the user says otherwise, and nothing is cut off", async () => {
  const { page, close } = await open(await trace(), { colorScheme: "dark" });
  await shows(page, "Where GPU time goes");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  const button = page.getByRole("button", { name: /^Colours/ });
  await button.click();
  await button.click();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
  for (const size of [{ width: 1280, height: 800 }, { width: 3840, height: 2160 }]) {
    await page.setViewportSize(size);
    for (const hash of ["#/overview", "#/timeline", "#/ranks", "#/sql", "#/metrics"]) {
      await visit(page, hash);
      await page.locator("main > :not(h1)").first().waitFor();
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} fits ${size.width}`);
    }
  }
  await close();
});
