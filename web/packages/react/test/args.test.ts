import { describe, expect, it } from "vitest";
import { parseJson, type JsonObject } from "@countersign/client";
import { argTable, digitGroups, type ArgRow } from "../src/forms/rows.js";
import { placeOf, problemError, problemsAt } from "../src/forms/edits.js";
import { titlesAt } from "../src/forms/schema.js";

const json = (text: string) => parseJson(text) as JsonObject;
const schema = json(`{
  "type": "object",
  "required": ["price", "symbol"],
  "$defs": {"leg": {"type": "object", "properties": {"side": {"oneOf": [{"const": "b", "title": "Buy"}, {"const": "s", "title": "Sell"}]}, "lots": {"type": "integer", "title": "Lots"}}}},
  "properties": {
    "symbol": {"type": "string", "title": "Share"},
    "price": {"type": "number", "title": "Price", "x-unit": "VND"},
    "due": {"type": ["string", "null"], "format": "date"},
    "legs": {"type": "array", "title": "Orders", "items": {"$ref": "#/$defs/leg"}},
    "day_only": {"type": "boolean", "default": false}
  }
}`);
const args = json('{"zz":1,"legs":[{"lots":10,"side":"s"},{"lots":2.50}],"price":9007199254740993.10,"symbol":"VNM","due":"2026-01-31"}');
const shape = (rows: ArgRow[]): unknown[] =>
  rows.map(({ name, title, unit, format, label, rows }) => [name, title ?? unit ?? format ?? label ?? "", ...(rows ? [shape(rows)] : [])]);

describe("u2: arguments for people", () => {
  it("stand in the order that the schema requires them, under its titles, and what it does not name comes last", () => {
    expect(shape(argTable(args, schema).rows)).toEqual([
      ["price", "Price"],
      ["symbol", "Share"],
      ["due", "date"],
      ["legs", "Orders", [["1", "", [["side", "Sell"], ["lots", "Lots"]]], ["2", "", [["lots", "Lots"]]]]],
      ["zz", ""],
    ]);
    expect(argTable(args, schema).rows[0]).toMatchObject({ unit: "VND" });
    expect(String(argTable(args, schema).rows[0]!.value)).toBe("9007199254740993.10");
    expect(argTable(args, schema).unset).toEqual([{ name: "day_only", fallback: false }]);
  });

  it("say how many of them a cut table leaves out", () => {
    const { rows, more } = argTable(args, schema, 5);
    expect(shape(rows)).toEqual([["price", "Price"], ["symbol", "Share"], ["due", "date"], ["legs", "Orders", [["1", "", []]]]]);
    expect([rows[3]!.rows![0]!.more, rows[3]!.more, more]).toEqual([2, 1, 1]);
  });

  it("need no schema", () => {
    expect(shape(argTable(args, undefined).rows).map((row) => (row as string[])[0])).toEqual(["zz", "legs", "price", "symbol", "due"]);
  });

  it("have their digits in groups that change none of them", () => {
    expect(["1234", "12345", "-1234567.8900", "9007199254740993", "1e9"].map((text) => digitGroups(text))).toEqual([
      ["1234"],
      ["12", "345"],
      ["-1", "234", "567.8900"],
      ["9", "007", "199", "254", "740", "993"],
      ["1e9"],
    ]);
  });

  it("are named in a change by titles, where there are some", () => {
    expect(titlesAt(schema, ["legs", 1, "lots"])).toBe("Orders › 2 › Lots");
    expect(titlesAt(schema, ["due"])).toBeUndefined();
  });
});

describe("what the server finds wrong inside an object or a list", () => {
  const pointer = "/decisions/0/edited_action/args/legs/1/lots";
  it("is about that place, and in the page's words where the schema says it simply", () => {
    expect([placeOf(pointer), placeOf("/a~1b/0"), placeOf("")]).toEqual(["legs/1/lots", "a~1b/0", ""]);
    const problem = { pointer, message: "no" };
    expect(problemError(problem, { args_schema: schema }, json('{"legs":[{},{"lots":"x"}]}'))).toEqual({ key: "edit.error.integer" });
    expect([problemsAt([problem], "legs/1").length, problemsAt([problem], "legs/10").length, problemsAt([problem], "").length]).toEqual([1, 0, 1]);
  });
});
