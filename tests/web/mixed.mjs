// A cluster of GPUs of several makers: simulated ones that train, two of AMD and those of Intel, which are idle.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, shows, startAgent, startAgentOn, startMaster, visit } from "./support.mjs";

test("GPUs of several makers are seen in one cluster, each with what it can tell", async () => {
  const master = await startMaster("mixed");
  await startAgent(master, "sim0", 0, [], 4);
  await startAgentOn(master, "amd0", "amd");
  await startAgentOn(master, "intel0", "intel");
  const { page, close } = await open(`${master.url}/#/overview?metric=gpu_power_watts`);
  await shows(page, /3 nodes, \d+ GPUs/);
  // Power of the simulated and of AMD's GPUs is known: two times 312 W.
  await page.waitForFunction(() => [...document.querySelectorAll(".cell")].filter((c) => /312/.test(c.innerText + c.title)).length >= 1);
  const nodes = await (await fetch(`${master.url}/api/v1/nodes`)).json();
  const vendors = new Map(nodes.nodes.map((n) => [n.node, [...new Set(n.gpus.map((g) => g.vendor))].join()]));
  assert.equal(vendors.get("amd0"), "amd");
  assert.equal(vendors.get("intel0"), "intel");
  assert.equal(vendors.get("sim0"), "simulated");
  await visit(page, "#/nodes");
  const table = page.getByRole("region", { name: "Nodes" });
  for (const node of ["sim0", "amd0", "intel0"]) await table.locator("tr", { hasText: node }).waitFor();
  await table.locator("tr", { hasText: "amd0" }).click();
  await shows(page, /MI250X/);
  await visit(page, "#/metrics?look=lines");
  await page.locator(".chart-panel .uplot canvas").first().waitFor();
  // The job runs on the simulated ones alone, and only those are marked so.
  await visit(page, "#/overview");
  await shows(page, "Training now");
  assert.equal((await page.getByRole("region", { name: "Training now" }).locator("tbody tr", { hasText: "sim0" }).count()) > 0, true);
  assert.equal(await page.getByRole("region", { name: "Training now" }).locator("tbody tr", { hasText: "amd0" }).count(), 0);
  await close();
});
