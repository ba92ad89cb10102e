// All tests of the page, one after the other, in one browser.

import { after } from "node:test";
import { closeAll } from "./support.mjs";

await import("./file.mjs");
await import("./cluster.mjs");
await import("./empty.mjs");
await import("./down.mjs");
await import("./token.mjs");

after(closeAll);
