import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parseJson, stringifyJson, type JsonObject } from "@countersign/client";
import { losesDigits, tooExact } from "../src/forms/digits.js";
import { fieldsOf, newEdit, readEdit } from "../src/forms/form.js";

it("u2: the numbers that lose digits are those that the server refuses", () => {
  // The server's own tests read them, too.
  const numbers = JSON.parse(readFileSync(new URL("../../../../tests/formats/numbers.json", import.meta.url), "utf8")) as Record<"exact" | "inexact", string[]>;
  expect([numbers.inexact.filter((text) => !losesDigits(text)), numbers.exact.filter(losesDigits)]).toEqual([[], []]);
  // A long one does not take long.
  expect(losesDigits(`0.${"0".repeat(1_000_000)}1${"0".repeat(1_000_000)}`)).toBe(true);
});

it("u2: a field says that a number has too many digits while it is typed, and so does JSON", () => {
  const schema = parseJson('{"type":"object","properties":{"n":{"type":"integer"},"price":{"type":"number"},"more":{"type":"array"}}}') as JsonObject;
  const args = parseJson('{"n":1,"price":1.10,"more":[]}') as JsonObject;
  const fields = fieldsOf(schema, args)!;
  const draft = newEdit(fields, args);
  const read = (changes: Record<string, string>) => {
    const found = readEdit({ ...draft, texts: { ...draft.texts, ...changes } }, fields, args);
    return found.ok ? stringifyJson(found.args) : found.errors;
  };
  const digits = (n: string) => ({ key: "edit.error.digits", n });
  expect(read({ n: "18446744073709551616", price: "0.1000000000000000055511151231257827", more: '[{"a":1e400}]' })).toEqual({
    n: digits("18446744073709551616"),
    price: digits("0.1000000000000000055511151231257827"),
    more: digits("1e400"),
  });
  expect(read({ n: "18446744073709551615", price: "1.20" })).toBe('{"n":18446744073709551615,"price":1.20,"more":[]}');
  expect(readEdit({ ...draft, tab: "json", raw: '{"n":1e400}' }, fields, args)).toEqual({ ok: false, errors: { "": digits("1e400") } });
  expect(tooExact(parseJson(`[${"9".repeat(100)}]`))).toBe(`${"9".repeat(40)}…`);
});
