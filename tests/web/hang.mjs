// A job of which one rank stops: the page names it while it hangs.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, shows, startAgent, startMaster, visit } from "./support.mjs";

test("a job that hangs is seen with the rank that is missing", async () => {
  const master = await startMaster("stuck");
  await startAgent(master, "stuck0", 0, ["--fault", "hang=2:20"], 4);
  const { page, close } = await open(master.url);
  await shows(page, "1 node, 4 GPUs");
  await page.getByLabel("Name of a new session").fill("stuck");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".session", { hasText: "stuck" }).waitFor();
  await visit(page, "#/hang");
  await shows(page, "The job hangs.");
  await page.locator(".rank-dots .missing").first().waitFor();
  assert.equal(await page.locator(".rank-dots .missing").first().innerText(), "2");
  await page.locator(".alert-list li", { hasText: "rank 2" }).first().waitFor();
  await close();
});
