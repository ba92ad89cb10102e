// Real processes and a real browser: a master with simulated agents, a viewer of a file, pages.

import { spawn, execFileSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";

/** A module that the page's package.json names. */
export const requirePage = createRequire(path.join(fs.realpathSync(process.env.PAGE_MODULES), "package.json"));
const { chromium } = requirePage("playwright-core");

export const program = process.env.TRACESMITH;
/** Long enough for a busy machine with sanitizers; nothing waits so long unless something is wrong. */
export const patience = Number(process.env.PATIENCE_S ?? 90) * 1000;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "tracesmith-web-"));
const rings = path.join(folder, "rings");
fs.mkdirSync(rings, { mode: 0o700 });
const children = new Set();
const doors = new Set();
let browser;

export const place = (name) => path.join(folder, name);

process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
  fs.rmSync(folder, { recursive: true, force: true });
});

export async function closeAll() {
  await browser?.close();
  for (const entry of doors) entry.close();
  for (const child of [...children]) await stop(child);
}

/** Starts the program and waits for a line of its output. */
function start(args, says, environment = {}) {
  const child = spawn(program, args, { env: { ...process.env, TRACESMITH_DIR: rings, ...environment }, stdio: ["ignore", "pipe", "pipe"] });
  children.add(child);
  let output = "";
  const found = new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`tracesmith ${args.join(" ")} does not say ${says}:\n${output}`)), patience);
    const read = (data) => {
      output += data;
      const match = says.exec(output);
      if (match) {
        clearTimeout(timer);
        resolve(match);
      }
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => {
      children.delete(child);
      clearTimeout(timer);
      reject(new Error(`tracesmith ${args.join(" ")} ended with ${code}:\n${output}`));
    });
  });
  return { child, found };
}

export function stop(child, signal = "SIGTERM") {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(() => child.kill("SIGKILL"), 20_000);
    child.on("exit", () => {
      clearTimeout(timer);
      resolve();
    });
    child.kill(signal);
  });
}

export async function startMaster(name, more = []) {
  const { child, found } = start(["cluster", "master", "--port", "0", "--http-port", "-1", "--data-dir", place(name), ...more], /listens on (127\.0\.0\.1:\d+)[\s\S]*HTTP API at (https?:\/\/127\.0\.0\.1:\d+)/);
  const [, address, url] = await found;
  return { child, address, url };
}

/** An agent with four simulated GPUs, of a job of as many ranks as `ranks` says. */
export async function startAgent(master, node, index, more = [], ranks = 8) {
  const args = ["cluster", "agent", "--master", master.address, "--port", "0", "--data-dir", place(node), "--node-id", node, "--sim", "4", "--sim-ranks", String(ranks), "--sim-first-rank", String(index * 4)];
  const { child, found } = start([...args, ...more], /connected to the master/);
  await found;
  return child;
}

/** An agent on a machine of which there is the tree of files that its kernel shows: tests/data/hardware/trees. */
export async function startAgentOn(master, node, tree) {
  const root = place(`tree-${node}`);
  const lines = fs.readFileSync(new URL(`../data/hardware/trees/${tree}.txt`, import.meta.url), "utf8").split("\n");
  for (const line of lines) {
    const match = /^([^ #]+) (->|=) ?(.*)$/.exec(line);
    if (!match) continue;
    const at = path.join(root, match[1]);
    fs.mkdirSync(path.dirname(at), { recursive: true });
    if (match[2] === "=") fs.writeFileSync(at, `${match[3].replaceAll("\\n", "\n")}\n`);
    else {
      if (!match[3].startsWith("/")) fs.mkdirSync(path.join(path.dirname(at), match[3]), { recursive: true });
      fs.symlinkSync(match[3], at);
    }
  }
  const args = ["cluster", "agent", "--master", master.address, "--port", "0", "--data-dir", place(node), "--node-id", node];
  const { child, found } = start(args, /connected to the master/, { TRACESMITH_ROOT: root, TRACESMITH_NVML: "/nowhere" });
  await found;
  return child;
}

export async function view(file, ...more) {
  const { child, found } = start(["view", file, "--web", "--port", "0", ...more], /(https?:\/\/127\.0\.0\.1:\d+)/);
  const [, url] = await found;
  return { child, url };
}

export function synth(file, ...args) {
  execFileSync(program, ["synth", "-o", file, ...args], { stdio: "ignore" });
  return file;
}

/** A port that stays while what is behind it comes and goes. */
export async function door() {
  let target = 0;
  const open = new Set();
  const server = net.createServer((socket) => {
    if (!target) return socket.destroy();
    const other = net.connect(target, "127.0.0.1");
    const both = [socket, other];
    for (const s of both) {
      open.add(s);
      s.on("error", () => {});
      s.on("close", () => {
        open.delete(s);
        both.forEach((b) => b.destroy());
      });
    }
    socket.pipe(other);
    other.pipe(socket);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  const entry = {
    url: `http://127.0.0.1:${server.address().port}`,
    to(url) {
      target = url ? Number(new URL(url).port) : 0;
      if (!target) for (const s of [...open]) s.destroy();
    },
    close() {
      entry.to(null);
      server.close();
    },
  };
  doors.add(entry);
  return entry;
}

/** A page of its own; what goes wrong in it fails the test that closes it. */
export async function open(url, options = {}, prepare = async () => {}) {
  browser ??= await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], timeout: patience });
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(patience);
  context.setDefaultNavigationTimeout(patience);
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(error.stack ?? error.message));
  page.on("console", (message) => {
    if (message.type() === "error" && !/Failed to load resource/.test(message.text())) wrong.push(message.text());
  });
  page.on("dialog", (dialog) => {
    wrong.push(`a dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await prepare(page);
  await page.goto(url);
  return {
    page,
    async close() {
      await context.close();
      if (wrong.length) throw new Error(`in the page:\n${wrong.join("\n")}`);
    },
  };
}

/** Goes to a view as a link would. */
export async function visit(page, hash) {
  await page.evaluate((h) => {
    location.hash = h;
  }, hash);
}

export const shows = (page, text) => page.getByText(text).first().waitFor();

/** Waits until the timeline has drawn everything it asked for. */
export const timelineReady = (page) => page.locator(".timeline[data-missing='0']").waitFor();

export async function timelineSpan(page) {
  const t = page.locator(".timeline");
  return Number(await t.getAttribute("data-to")) - Number(await t.getAttribute("data-from"));
}
