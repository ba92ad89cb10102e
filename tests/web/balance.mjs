// Two workers of which one is slow report their steps: the page shows the plan that follows, and takes it back.

import assert from "node:assert/strict";
import { test } from "node:test";
import { open, shows, startMaster, visit } from "./support.mjs";

/** Steps of two workers that do what they are answered. */
async function train(url, first, last, batch) {
  for (let step = first; step < last; step++) {
    const wall = Math.max(batch[0] * 0.01, batch[1] * 0.03);
    const steps = batch.map((n, rank) => ({ job: "mixed", rank, ranks: 2, total: 64, step, batch: n, busy_s: n * (rank ? 0.03 : 0.01), wall_s: wall }));
    const answer = await fetch(`${url}/api/v1/ingest`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(steps) });
    assert.equal(answer.status, 200);
    const { plans } = await answer.json();
    // The second was answered when both had reported.
    const { next, batch: now } = plans[1];
    const slow = next && next.from_step <= step + 1 ? next.batch : now;
    batch = [64 - slow, slow];
  }
  return batch;
}

test("a balanced job is shown with its ranks, plans and gains", async () => {
  const { url } = await startMaster("balance");
  const { page, close } = await open(url);
  await visit(page, "#/balance");
  await shows(page, "No job is being balanced");
  const batch = await train(url, 0, 40, [32, 32]);
  assert.deepEqual(batch, [48, 16]);
  await shows(page, /Plan 1 is in force from step \d+/);
  await shows(page, /Rank 1 needs/);
  const ranks = page.getByRole("region", { name: "Ranks", exact: true });
  assert.deepEqual((await ranks.locator("tbody tr").nth(1).locator("td").allInnerTexts()).slice(-2), ["32", "16"]);
  await page.getByRole("region", { name: "Predicted and real gain" }).getByText("50.0 %").first().waitFor();
  await page.locator(".balance canvas").waitFor();
  await page.getByRole("button", { name: "Undo the plan" }).click();
  await shows(page, "Plan 2 is on its way");
  await train(url, 40, 60, batch);
  await shows(page, /Plan 2 is in force/);
  await page.getByRole("button", { name: "Dry run" }).click();
  await shows(page, "dry run: plans are only told");
  await close();
});
