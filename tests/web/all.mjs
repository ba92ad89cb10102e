// The tests of the page, one after the other, in one browser: all.mjs [PART…]

import { after } from "node:test";
import { closeAll } from "./support.mjs";

const parts = process.argv.length > 2 ? process.argv.slice(2) : ["file", "torch", "jobs", "tasks", "arrange", "two", "arrow", "cluster", "mixed", "empty", "down", "token", "hang", "balance", "flame"];
for (const part of parts) await import(`./${part}.mjs`);

after(closeAll);
