// A master with two simulated agents: live overview, sessions, metrics, hang, nodes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, patience, shows, startAgent, startMaster, timelineReady, visit } from "./support.mjs";

let started;
async function cluster() {
  started ??= (async () => {
    const master = await startMaster("cluster");
    const at = String(Math.floor(Date.now() / 1000));
    for (const i of [0, 1]) await startAgent(master, `node${i}`, i, ["--sim-start", at]);
    return master;
  })();
  return (await started).url;
}

test("the overview shows every GPU with a value that changes", async () => {
  const { page, close } = await open(`${await cluster()}/#/overview?metric=gpu_power_watts`);
  await shows(page, "2 nodes, 8 GPUs");
  await shows(page, "simulated data");
  await page.waitForFunction(() => document.querySelectorAll(".cell:not(.unknown)").length === 8);
  const values = () => page.locator(".cell").allInnerTexts();
  const before = (await values()).join();
  await page.waitForFunction((b) => [...document.querySelectorAll(".cell")].map((c) => c.innerText).join() !== b, before);
  await page.locator(".status .up", { hasText: "live" }).waitFor();
  await shows(page, /records? lost/);
  await close();
});

test("a session is started, recorded, stopped, and seen on the timeline", async () => {
  const { page, close } = await open(await cluster());
  await page.getByLabel("Name of a new session").fill("from-the-page");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  const line = page.locator(".session", { hasText: "from-the-page" });
  await line.locator(".chip", { hasText: "recording" }).waitFor();
  // The timeline of a session that still records grows: both nodes come to be seen.
  await page.getByRole("link", { name: "Timeline of from-the-page" }).click();
  for (const rank of ["rank 0", "rank 7"]) await page.locator(".row-label.group", { hasText: rank }).waitFor();
  await visit(page, "#/overview");
  await page.getByRole("button", { name: "Stop from-the-page" }).click();
  await line.locator(".chip", { hasText: /^complete$/ }).waitFor();
  await page.getByRole("link", { name: "Timeline of from-the-page" }).click();
  await timelineReady(page);
  await page.locator(".row-label.group", { hasText: "rank 7" }).waitFor();
  await visit(page, "#/ranks");
  await page.locator(".verdict").waitFor();
  await close();
});

test("a session named <script> is refused with its name as text", async () => {
  const { page, close } = await open(await cluster());
  const name = "<script>alert(1)</script>";
  await page.getByLabel("Name of a new session").fill(name);
  await page.getByRole("button", { name: "Start", exact: true }).click();
  const says = page.locator(".start-session .form-says[role=alert]");
  await says.waitFor();
  assert.ok((await says.innerText()).includes(name));
  assert.equal(await page.locator("main script").count(), 0);
  assert.equal(await page.locator(".session", { hasText: "<script>" }).count(), 0);
  await close();
});

test("metrics are drawn, and a zoom of one chart is a zoom of all", async () => {
  const { page, close } = await open(`${await cluster()}/#/metrics?look=lines`);
  await page.locator(".chart-panel .uplot canvas").first().waitFor();
  // Charts that come late push the first one down: then the mouse was not over it.
  for (let zoomed = false, tries = 0; !zoomed; ++tries) {
    assert.ok(tries < 20, "no drag zooms");
    const box = await page.locator(".u-over").first().boundingBox();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, box.y + 60, { steps: 4 });
    await page.mouse.up();
    zoomed = await page.waitForFunction(() => /from=\d+&to=\d+/.test(location.hash), null, { timeout: 3000 }).then(() => true, () => false);
  }
  await page.getByRole("button", { name: "Back to live" }).click();
  await page.waitForFunction(() => !/from=/.test(location.hash));
  await visit(page, "#/metrics?look=heat");
  await page.locator(".heat canvas").first().waitFor();
  await close();
});

test("hang gives a verdict, nodes their clocks", async () => {
  const { page, close } = await open(`${await cluster()}/#/hang`);
  await page.locator(".verdict").waitFor();
  await visit(page, "#/nodes");
  await page.getByRole("region", { name: "Nodes" }).locator("tr", { hasText: "node1" }).click();
  await page.waitForFunction(() => /node=node1/.test(location.hash));
  await page.locator(".clock-charts .uplot canvas").first().waitFor({ timeout: patience });
  await close();
});

test("SQL asks the newest session", async () => {
  const { page, close } = await open(`${await cluster()}/#/sql`);
  await page.locator("option", { hasText: "from-the-page" }).waitFor({ state: "attached" });
  await page.locator("textarea.code").fill("SELECT rank, count(*) AS n FROM events WHERE rank IS NOT NULL GROUP BY rank");
  await page.keyboard.press("Control+Enter");
  await shows(page, /^\d+ rows/);
  await close();
});
