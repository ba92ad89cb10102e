// A job of which one rank stops: the page names it while it hangs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, shows, startAgent, startMaster, visit } from "./support.mjs";

test("a job that hangs is seen with the rank that is missing", async () => {
  const master = await startMaster("stuck");
  await startAgent(master, "stuck0", 0, ["--fault", "hang=2:300"], 4);
  // Recorded from here on, also when the hang begins.
  const started = await fetch(`${master.url}/api/v1/sessions`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name: "stuck" }) });
  assert.ok(started.ok, await started.text());
  const { page, close } = await open(master.url);
  await shows(page, "1 node, 4 GPUs");
  await page.locator(".session", { hasText: "stuck" }).waitFor();
  await visit(page, "#/hang");
  await shows(page, "The job hangs.");
  await page.locator(".rank-dots .missing", { hasText: /^2$/ }).first().waitFor();
  await page.locator(".alert-list li", { hasText: "rank 2" }).first().waitFor();
  // The ranks that wait and the one that is missing, each in its step; and what its GPU does meanwhile.
  const places = page.getByRole("region", { name: "Training now" });
  await places.locator("tbody tr", { hasText: "rank 2" }).locator(".chip", { hasText: "missing" }).waitFor();
  await places.locator("tbody tr", { hasText: "waits" }).nth(2).waitFor();
  await page.locator(".chart-panel canvas").first().waitFor();
  // What was recorded when it began is a click away, at that moment, on the rank.
  const before = page.locator(".frozen li", { hasText: "stuck" });
  await before.getByRole("link", { name: "timeline of rank 2" }).click();
  await page.locator(".row-label.group[aria-expanded='true']", { hasText: "rank 2" }).waitFor();
  await close();
});
