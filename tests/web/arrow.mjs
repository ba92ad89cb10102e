// Results as Arrow streams, read by Apache's own library.

import assert from "node:assert/strict";
import { test } from "node:test";
import { place, requirePage, synth, view } from "./support.mjs";

const { tableFromIPC } = requirePage("apache-arrow");

let served;
async function query(sql, more = {}) {
  served ??= view(synth(place("arrow.sbt"), "--events", "100000", "--ranks", "4"));
  const { url } = await served;
  const answer = await fetch(`${url}/api/v1/query`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ sql, format: "arrow", ...more }) });
  assert.equal(answer.headers.get("content-type"), "application/vnd.apache.arrow.stream");
  return tableFromIPC(new Uint8Array(await answer.arrayBuffer()));
}
const column = (table, name) => [...table.getChild(name)];

test("every type comes over, with its NULLs", async () => {
  const table = await query(`SELECT * FROM (VALUES
    (9007199254740993::BIGINT, -7::INTEGER, 250::UTINYINT, 1.5::DOUBLE, 0.25::FLOAT, true, 'grüße', DATE '2026-11-15', TIMESTAMP_NS '2026-11-15 12:00:00.123456789', [1, 2]),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (-1, 2147483647, 0, 'infinity', -2, false, '', DATE '1970-01-01', TIMESTAMP_NS '1970-01-01 00:00:00', []))
    t(big, i, small, real, single, truth, words, day, moment, list)`);
  assert.deepEqual(
    table.schema.fields.map((f) => `${f.name} ${f.type}`),
    ["big Int64", "i Int32", "small Uint8", "real Float64", "single Float32", "truth Bool", "words Utf8", "day Date32<DAY>", "moment Timestamp<NANOSECOND>", "list Utf8"],
  );
  assert.deepEqual(column(table, "big"), [9007199254740993n, null, -1n]);
  assert.deepEqual(column(table, "i"), [-7, null, 2147483647]);
  assert.deepEqual(column(table, "small"), [250, null, 0]);
  assert.deepEqual(column(table, "real"), [1.5, null, Infinity]);
  assert.deepEqual(column(table, "single"), [0.25, null, -2]);
  assert.deepEqual(column(table, "truth"), [true, null, false]);
  assert.deepEqual(column(table, "words"), ["grüße", null, ""]);
  assert.deepEqual(column(table, "list"), ["[1, 2]", null, "[]"]);
  assert.equal(Number(column(table, "day")[0]), Date.UTC(2026, 10, 15));
  assert.equal(table.getChild("moment").data[0].values[0], BigInt(Date.UTC(2026, 10, 15, 12)) * 1_000_000n + 123456789n);
  assert.equal(column(table, "moment")[1], null);
});

test("a large result comes in several batches and is the one JSON gives", async () => {
  const sql = "SELECT ts, dur, name, rank, stream FROM events ORDER BY ts, rank, name LIMIT 90000";
  const table = await query(sql, { max_rows: 1_000_000 });
  assert.equal(table.numRows, 90_000);
  assert.ok(table.batches.length > 1);
  const { url } = await served;
  const answer = await fetch(`${url}/api/v1/query`, { method: "POST", body: JSON.stringify({ sql, max_rows: 1_000_000 }) });
  const json = await answer.json();
  for (const [c, { name }] of json.columns.entries()) {
    const arrow = column(table, name);
    for (let r = 0; r < json.rows.length; r += 97) assert.equal(String(arrow[r]), String(json.rows[r][c]), `${name} of row ${r}`);
  }
});

test("sums, nothing at all, and limits", async () => {
  const sums = await query("SELECT sum(dur) AS s, count(*) AS n, sum(dur) / 3 AS r, 1.25::DECIMAL(5,2) AS d FROM events");
  assert.deepEqual(sums.schema.fields.map((f) => f.typeId), [7, 2, 3, 7]); // decimal, int, float, decimal
  const [low, high] = column(sums, "s")[0];
  assert.ok(low + high * 2 ** 32 > 1e6);
  assert.equal(column(sums, "d")[0][0], 125);
  const none = await query("SELECT name, ts FROM events WHERE false");
  assert.equal(none.numRows, 0);
  assert.deepEqual(none.schema.fields.map((f) => f.name), ["name", "ts"]);
  assert.equal((await query("SELECT * FROM events", { max_rows: 10 })).numRows, 10);
});
