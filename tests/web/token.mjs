// With a token file the page asks for a token, and a viewer cannot start a session.

import fs from "node:fs";
import assert from "node:assert/strict";
import { test } from "node:test";
import { open, place, shows, startMaster } from "./support.mjs";

test("a token is asked for, kept in the tab, and its role is respected", async () => {
  const file = place("tokens");
  fs.writeFileSync(file, "operator operator-token-0123456789\nviewer viewer-token-0123456789\n", { mode: 0o600 });
  const { url } = await startMaster("closed", ["--token-file", file]);
  const { page, close } = await open(url);
  const prompt = page.getByRole("dialog", { name: "A token is required" });
  await prompt.waitFor();
  await prompt.getByLabel("Token").fill("wrong-token-0123456789");
  await prompt.getByRole("button", { name: "Use it" }).click();
  await shows(page, "The server does not accept this token");
  await prompt.getByLabel("Token").fill("viewer-token-0123456789");
  await prompt.getByRole("button", { name: "Use it" }).click();
  await shows(page, "No node has joined yet");
  await page.locator(".status .up").waitFor();
  assert.ok(await page.getByRole("button", { name: "Start", exact: true }).isDisabled());
  await page.reload();
  await shows(page, "No node has joined yet");
  await close();
});
