// A master that nobody has joined: every view says what to do.

import { test } from "node:test";
import { open, shows, startMaster, visit } from "./support.mjs";

test("every view of an empty cluster says what to do", async () => {
  const { url } = await startMaster("empty");
  const { page, close } = await open(url);
  await shows(page, "No node has joined yet");
  await shows(page, /tracesmith cluster agent --master/);
  await shows(page, "No session yet");
  await visit(page, "#/metrics");
  await shows(page, /No metrics yet|Nothing was measured/);
  for (const hash of ["#/timeline", "#/ranks", "#/sql", "#/compare"]) {
    await visit(page, hash);
    await shows(page, "Nothing recorded yet");
    await shows(page, /tracesmith cluster start --name/);
  }
  await visit(page, "#/hang");
  await shows(page, "No collective is waiting");
  await visit(page, "#/nodes");
  await shows(page, "No node has joined yet");
  await visit(page, "#/nonsense");
  await shows(page, /There is no page “nonsense”/);
  await close();
});
