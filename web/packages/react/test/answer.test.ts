import { describe, expect, test } from "vitest";
import { parseJson, stringifyJson, type JsonValue } from "@countersign/client";
import { ANSWER, answerForm, emptyAnswer, readAnswer } from "../src/forms/answer.js";
import { choiceText } from "../src/forms/values.js";

const kind = (schema: JsonValue | undefined) => {
  const form = answerForm(schema);
  return form.kind === "field" ? form.field.kind : form.kind;
};

/** The answer that these texts give. */
const sent = (schema: JsonValue | undefined, texts: Record<string, string>) => {
  const form = answerForm(schema);
  const read = readAnswer(form, { texts: { ...emptyAnswer(form).texts, ...texts } });
  return read.ok ? stringifyJson(read.value) : Object.entries(read.errors).map(([name, e]) => `${name}: ${e.key}`);
};

describe("g3: the form of an answer follows its schema", () => {
  test("plain values have fields of their own", () => {
    expect(kind({ type: "boolean" })).toBe("boolean");
    expect(kind({ type: "string" })).toBe("string");
    expect(kind({ type: ["integer", "null"] })).toBe("integer");
    expect(kind({ enum: ["a", "b"] })).toBe("buttons");
    expect(kind({ oneOf: [{ const: "a" }, { const: 2 }] })).toBe("buttons");
    expect(kind({ enum: ["a", "b", "c", "d", "e"] })).toBe("enum");
    expect(kind({ $ref: "#/$defs/Yes", $defs: { Yes: { type: "boolean" } } })).toBe("boolean");
    expect(kind({ type: "object", properties: { note: { type: "string" } } })).toBe("object");
  });

  test("what no form can show is written as JSON", () => {
    for (const schema of ["true", "{}", '{"type":"array"}', '{"type":"object"}', '{"oneOf":[{"type":"string"},{"type":"object"}]}']) {
      expect(kind(parseJson(schema))).toBe("json");
    }
    expect(kind(undefined)).toBe("json");
    expect(kind({ type: "object", properties: { a: { type: "string" } }, oneOf: [{ required: ["a"] }] })).toBe("json");
    const loop: JsonValue = { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } };
    expect(kind(loop)).toBe("json");
  });

  test("ordinary values that look like nothing are answers", () => {
    for (const value of ["null", "false", "0", '""', "{}", "[]"]) expect(sent(undefined, { [ANSWER]: value })).toBe(value);
    expect(sent({ type: "string" }, {})).toBe('""');
    expect(sent({ type: "number" }, { [ANSWER]: "0" })).toBe("0");
  });

  test("numbers keep their digits, and what cannot be read is not sent", () => {
    expect(sent({ type: "number" }, { [ANSWER]: "1.10" })).toBe("1.10");
    expect(sent({ type: "integer" }, { [ANSWER]: "9007199254740993" })).toBe("9007199254740993");
    expect(sent({ type: "integer" }, { [ANSWER]: "1.5" })).toEqual([": edit.error.integer"]);
    expect(sent(undefined, { [ANSWER]: "{" })).toEqual([": edit.error.json"]);
    expect(sent(undefined, {})).toEqual([": edit.error.required"]);
  });

  test("an object's fields", () => {
    const schema = parseJson(`{"type":"object","required":["accept","price"],"properties":{
      "accept":{"type":"boolean"},"price":{"type":"number","default":1.50},"note":{"type":["string","null"]}}}`);
    expect(sent(schema, { accept: "true" })).toBe('{"accept":true,"price":1.50}');
    expect(sent(schema, { accept: "false", price: "", note: "no" })).toEqual(["price: edit.error.required"]);
  });

  test("what may be null is null where nothing is entered, if it must be there", () => {
    for (const type of ["string", "integer", "boolean"]) expect(sent({ type: [type, "null"] }, {})).toBe("null");
    expect(sent({ anyOf: [{ const: "a" }, { type: "null" }] }, {})).toBe("null");
    expect(sent({ $ref: "#/$defs/n", $defs: { n: { anyOf: [{ type: "number" }, { type: "null" }] } } }, {})).toBe("null");
    expect(sent({ type: ["boolean", "null"] }, { [ANSWER]: "false" })).toBe("false");
    const list = parseJson('{"properties":{"t":{"type":["array","null"],"items":{"enum":["a","b"]}}},"required":["t"]}');
    expect(sent(list, {})).toBe('{"t":null}');
    expect(sent(list, { t: "[]" })).toBe('{"t":[]}');
    const both = parseJson('{"properties":{"a":{"type":["integer","null"]},"b":{"type":["string","null"]}},"required":["a"]}');
    expect(sent(both, {})).toBe('{"a":null}');
    expect(sent(both, { a: "0", b: "x" })).toBe('{"a":0,"b":"x"}');
  });

  test("an object that a form cannot complete is written as JSON", () => {
    const properties = '"properties":{"name":{"type":"string"}}';
    expect(kind(parseJson(`{${properties},"required":["name","extra"],"additionalProperties":{"type":"integer"}}`))).toBe("json");
    expect(kind(parseJson(`{${properties},"minProperties":2,"additionalProperties":{"type":"integer"}}`))).toBe("json");
    expect(kind(parseJson(`{${properties},"minProperties":1,"required":["name"]}`))).toBe("object");
  });

  test("a default that its field cannot show is ignored", () => {
    const schema = parseJson(`{"properties":{"s":{"type":"string","default":5},"b":{"type":"boolean","default":"yes"},"n":{"type":"number","default":1.50},
      "o":{"type":"object","properties":{"a":{"type":"string"}},"default":{"a":"y","b":1}}}}`);
    expect(sent(schema, {})).toBe('{"n":1.50}');
  });

  test("a choice is read without its quotes", () => {
    expect(choiceText('"accept"')).toBe("accept");
    expect(choiceText("2")).toBe("2");
  });
});
