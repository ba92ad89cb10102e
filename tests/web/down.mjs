// The master goes away and comes back, behind a port that stays.

import assert from "node:assert/strict";
import { test } from "node:test";
import { door, open, shows, startAgent, startMaster, stop, visit } from "./support.mjs";

test("with the master down every view says so, and goes on when it is back", async () => {
  const entry = await door();
  const first = await startMaster("down");
  const agent = await startAgent(first, "lonely", 0);
  entry.to(first.url);
  const { page, close } = await open(entry.url);
  await shows(page, "1 node, 4 GPUs");
  await stop(agent);
  await stop(first.child);
  entry.to(null);
  await page.locator(".status .down", { hasText: "Disconnected" }).waitFor();
  await page.locator(".status .down code", { hasText: "tracesmith cluster master --http-port" }).waitFor();
  // What was there stays; what was not says that nobody answers.
  await shows(page, "1 node, 4 GPUs");
  for (const hash of ["#/metrics", "#/timeline", "#/ranks", "#/hang"]) {
    await visit(page, hash);
    await shows(page, "The server does not answer");
  }
  await visit(page, "#/sql");
  await page.locator("textarea.code").fill("SELECT 1");
  await page.keyboard.press("Control+Enter");
  await shows(page, "no server answers at this address");
  await visit(page, "#/nodes");
  await page.getByRole("region", { name: "Nodes" }).waitFor();
  const second = await startMaster("down");
  entry.to(second.url);
  await page.locator(".status .up").waitFor();
  await visit(page, "#/timeline");
  await shows(page, "Nothing recorded yet");
  await close();
});

test("an event older than what is shown changes nothing", async () => {
  const master = await startMaster("older");
  await startAgent(master, "early", 0);
  // The stream of events begins with what was last sent to everybody: here from before the agent joined.
  const before = { now: "1", nodes: [], stored_bytes: 0, problem: null, sessions: [] };
  const { page, close } = await open(master.url, {}, (p) =>
    p.route("**/api/v1/events*", (route) =>
      route.fulfill({ contentType: "text/event-stream", body: `event: status\ndata: ${JSON.stringify(before)}\n\n` }),
    ),
  );
  await shows(page, "1 node, 4 GPUs");
  await page.locator(".status .down").waitFor(); // the stream was read to its end
  assert.equal(await page.getByText("No node has joined yet").count(), 0);
  await close();
});
