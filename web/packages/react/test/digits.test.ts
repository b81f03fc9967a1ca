import { expect, it } from "vitest";
import { parseJson, stringifyJson, type JsonObject } from "@countersign/client";
import { losesDigits, tooExact } from "../src/forms/digits.js";
import { fieldsOf, newEdit, readEdit } from "../src/forms/form.js";

it("u2: the numbers that lose digits are those that the server refuses", () => {
  const refused = ["18446744073709551616", "-9223372036854775809", "99999999999999999999", "0.1000000000000000055511151231257827", "9007199254740993.5", "1e400", "-1e400", "1e-400", "1.00000000000000000001"];
  const taken = [
    "0", "-0", "0.00", "0e999999999999", "1.10", "-1.50", "9007199254740993", "18446744073709551615", "-9223372036854775808", "100000000000000000000",
    "1e21", "1E+2", "1e-7", "0.0000001", "1.5e300", "5e-324", "0.1", "123456789012345680000", "1.0",
  ];
  expect([refused.filter((text) => !losesDigits(text)), taken.filter(losesDigits)]).toEqual([[], []]);
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
