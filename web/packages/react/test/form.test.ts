import { describe, expect, it } from "vitest";
import { parseJson, stringifyJson, type JsonObject } from "@countersign/client";
import { diff } from "../src/forms/diff.js";
import { fieldsOf, freshDraft, newEdit, readEdit, switchTab, type EditDraft, type Field, type FieldDraft } from "../src/forms/form.js";

const json = (text: string) => parseJson(text) as JsonObject;
const schema = json(`{
  "type": "object",
  "required": ["symbol", "quantity"],
  "properties": {
    "symbol": {"type": "string"},
    "quantity": {"type": "integer"},
    "price": {"type": "number"},
    "side": {"enum": ["buy", "sell"]},
    "day_only": {"type": "boolean"},
    "note": {"type": "string"},
    "legs": {"type": "array"}
  }
}`);
const args = json('{"symbol":"VNM","quantity":9007199254740993,"price":1.10,"side":"buy","legs":[{"x":1.0}],"extra":"e"}');
const fields = fieldsOf(schema, args)!;
const edit = (changes: Record<string, string>): EditDraft => {
  const draft = newEdit(fields, args);
  return { ...draft, texts: { ...draft.texts, ...changes } };
};
const read = (changes: Record<string, string>) => readEdit(edit(changes), fields, args);
const text = (changes: Record<string, string>) => {
  const result = read(changes);
  return result.ok ? stringifyJson(result.args) : result.errors;
};

describe("form", () => {
  it("has a field for each property, and for arguments that the schema does not name", () => {
    expect(fields.map((f) => [f.name, f.kind])).toEqual([
      ["symbol", "string"],
      ["quantity", "integer"],
      ["price", "number"],
      ["side", "enum"],
      ["day_only", "boolean"],
      ["note", "string"],
      ["legs", "json"],
      ["extra", "string"],
    ]);
  });

  it("gives back exactly the same arguments when nothing was typed", () => {
    expect(text({})).toBe(stringifyJson(args));
  });

  it("keeps an empty list of choices, which is not the same as none", () => {
    const choices = json('{"properties":{"tags":{"type":"array","items":{"enum":["a","b"]}},"n":{"type":"integer"}}}');
    const edited = (given: string, texts: Record<string, string>) => {
      const before = json(given);
      const form = fieldsOf(choices, before, { titles: true })!;
      expect(form[0]?.kind).toBe("choices");
      const draft = newEdit(form, before);
      const result = readEdit({ ...draft, texts: { ...draft.texts, ...texts } }, form, before);
      return result.ok && stringifyJson(result.args);
    };
    expect(edited('{"tags":[],"n":1}', {})).toBe('{"tags":[],"n":1}');
    expect(edited('{"tags":[],"n":1}', { n: "2" })).toBe('{"tags":[],"n":2}');
    // The last box is unticked.
    expect(edited('{"tags":["a"],"n":1}', { tags: "[]" })).toBe('{"tags":[],"n":1}');
    expect(edited('{"n":1}', { n: "2" })).toBe('{"n":2}');
  });

  it("never rounds what is typed", () => {
    expect(text({ quantity: "9007199254740995", price: "2.50" })).toBe(
      '{"symbol":"VNM","quantity":9007199254740995,"price":2.50,"side":"buy","legs":[{"x":1.0}],"extra":"e"}',
    );
  });

  it("adds what is set and removes what is emptied", () => {
    expect(text({ day_only: "true", price: "", note: "" })).toBe(
      '{"symbol":"VNM","quantity":9007199254740993,"side":"buy","legs":[{"x":1.0}],"extra":"e","day_only":true}',
    );
    expect(text({ symbol: "" })).toContain('"symbol":""');
  });

  it("says which field is wrong, and why", () => {
    expect(text({ quantity: "" })).toEqual({ quantity: { key: "edit.error.required" } });
    expect(text({ quantity: "1.5" })).toEqual({ quantity: { key: "edit.error.integer" } });
    expect(text({ price: "1,5" })).toEqual({ price: { key: "edit.error.number" } });
    expect(text({ legs: "[1," })).toMatchObject({ legs: { key: "edit.error.json" } });
  });

  it("carries an edit over to JSON and back", () => {
    const raw = switchTab(edit({ price: "3.00" }), fields, args);
    expect(raw.tab).toBe("json");
    expect(raw.raw).toContain('"price": 3.00');
    const back = switchTab(raw, fields, args);
    expect(back.texts.price).toBe("3.00");
    expect(switchTab({ ...raw, raw: "{" }, fields, args).tab).toBe("json");
  });

  it("has only the JSON editor where there is no usable schema", () => {
    expect(fieldsOf(undefined, args)).toBeUndefined();
    expect(newEdit(undefined, args).tab).toBe("json");
    expect(readEdit({ tab: "json", texts: {}, raw: "[1]" }, undefined, args)).toEqual({
      ok: false,
      errors: { "": { key: "edit.error.object" } },
    });
  });

  it.each(['{"a":1,"a":2}', '{"a":1,"a":1}'])("names the key that is there twice, whatever its values: %s", (raw) => {
    expect(readEdit({ tab: "json", texts: {}, raw }, undefined, args)).toEqual({ ok: false, errors: { "": { key: "edit.error.duplicate", n: "a" } } });
  });

  it("lets a value be edited that does not fit its schema", () => {
    expect(fieldsOf(schema, json('{"symbol":5}'))![0]).toMatchObject({ kind: "json" });
    expect(fieldsOf(schema, json('{"side":"hold"}'))![3]).toMatchObject({ kind: "string" });
  });
});

describe("u2: going from JSON to the form changes nothing", () => {
  const members = '{"note":{"type":"string"},"at":{"type":"string","format":"date-time"}}';
  const schema = json(`{"type":"object","properties":{"note":{"type":"string"},"at":{"type":"string","format":"date-time"},
    "in":{"type":"object","properties":${members}},"all":{"type":"array","items":{"type":"object","properties":${members}}}}}`);

  it.each([
    ['{"note":"x"}', "{}"],
    ["{}", '{"note":""}'],
    ['{"at":"2026-01-01T10:00"}', '{"at":"2026-01-02T10:00"}'],
    ['{"in":{"note":"x"}}', '{"in":{}}'],
    ['{"in":{}}', '{"in":{"note":""}}'],
    ['{"all":[{"note":"x"}]}', '{"all":[{"note":""}]}'],
    ['{"all":[{}]}', '{"all":[{"at":"2026-01-02T10:00"}]}'],
  ])("of %s to %s: it stays JSON", (original, edited) => {
    const fields = fieldsOf(schema, json(original))!;
    const raw: EditDraft = { tab: "json", texts: {}, raw: edited };
    expect(switchTab(raw, fields, json(original))).toBe(raw);
  });

  it.each([
    ['{"note":"x"}', '{"note":""}'],
    ['{"note":""}', '{"note":"x"}'],
    ['{"at":"2026-01-01T10:00"}', '{"note":"y","at":"2026-01-01T10:00"}'],
    ['{"in":{"note":"x"}}', "{}"],
    ['{"all":[{"note":"x"}]}', '{"all":[{},{"note":"x"}]}'],
  ])("of %s to %s: the form has the same", (original, edited) => {
    const fields = fieldsOf(schema, json(original))!;
    const form = switchTab({ tab: "json", texts: {}, raw: edited }, fields, json(original));
    expect(form.tab).toBe("form");
    expect(readEdit(form, fields, json(original))).toEqual({ ok: true, args: json(edited) });
  });
});

describe("u2: a text whose line ends a field cannot restore", () => {
  const schema = json('{"type":"object","properties":{"text":{"type":"string"},"lines":{"type":"array","items":{"type":"string"}},"in":{"type":"object","properties":{"text":{"type":"string"}}}}}');
  const kinds = (text: string) => fieldsOf(schema, { text, lines: [text], in: { text } })!.map((f) => f.fields?.[0]?.kind ?? f.kind);

  it.each(["a\r\nb\nc", "a\nb\r\n", "a\rb", "a\r\r\n"])("is written as JSON: %j", (text) => {
    expect(kinds(text)).toEqual(["json", "json", "json"]);
    const fields = fieldsOf(schema, { text: "a" })!;
    const raw = { tab: "json" as const, texts: {}, raw: JSON.stringify({ text }) };
    expect(switchTab(raw, fields, { text: "a" })).toBe(raw);
  });

  it.each(["a\r\nb\r\n", "a\n\nb", "\n", "a"])("is none with ends of one kind: %j", (text) => {
    expect(kinds(text)).toEqual(["string", "list", "string"]);
  });
});

describe("u2: objects and lists", () => {
  const nested = json(`{
    "type": "object",
    "$defs": {"leg": {"type": "object", "required": ["side", "lots"], "properties": {
      "side": {"enum": ["buy", "sell"]},
      "lots": {"type": "integer", "title": "Lots", "minimum": 1, "multipleOf": 10}
    }}},
    "properties": {
      "to": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "due": {"type": "string", "format": "date"}}},
      "legs": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/leg"}},
      "tags": {"type": "array", "items": {"type": "string"}},
      "free": {"type": "object"}
    }
  }`);
  const given = json('{"to":{"name":"Ann","extra":1.10},"legs":[{"lots":9007199254740990,"side":"buy"}],"free":{"a":1.0}}');
  const form = fieldsOf(nested, given, { titles: true, rules: "limits" })!;
  const draft = newEdit(form, given);
  const result = (texts: EditDraft["texts"]) => {
    const made = readEdit({ ...draft, texts: { ...draft.texts, ...texts } }, form, given);
    return made.ok ? stringifyJson(made.args) : made.errors;
  };

  it("have forms of their own, and what no form can show is JSON", () => {
    expect(form.map((f) => [f.name, f.kind])).toEqual([["to", "object"], ["legs", "list"], ["tags", "list"], ["free", "json"]]);
    expect(form[0]!.fields!.map((f) => [f.name, f.kind, f.format])).toEqual([["name", "string", undefined], ["due", "string", "date"], ["extra", "number", undefined]]);
    expect(form[1]!.item!.fields!.map((f) => [f.kind, f.title])).toEqual([["enum", undefined], ["integer", "Lots"]]);
    const odd = fieldsOf(nested, json('{"legs":[{"side":"buy","lots":10,"more":1}],"to":null,"tags":["a",5]}'))!;
    expect(odd.map((f) => f.kind)).toEqual(["json", "json", "json", "json"]);
  });

  it("give back the same arguments to the digit when nothing was typed", () => {
    expect(result({})).toBe(stringifyJson(given));
  });

  it("are changed entry by entry, set and left out", () => {
    const leg = { side: '"sell"', lots: "20" };
    expect(result({ legs: [leg], to: "" })).toBe('{"legs":[{"side":"sell","lots":20}],"free":{"a":1.0}}');
    expect(result({ tags: ["x", ""], to: { name: "Bob", due: "2026-01-31" }, free: "" })).toBe(
      '{"to":{"name":"Bob","due":"2026-01-31"},"legs":[{"lots":9007199254740990,"side":"buy"}],"tags":["x",""]}',
    );
    expect(freshDraft(form[1]!.item!)).toEqual({ side: "", lots: "" });
  });

  it("stay what they were where an entry before them is removed", () => {
    const list = json('{"type":"object","properties":{"legs":{"type":"array","items":{"type":"object","properties":{"side":{"type":"string"},"note":{"type":"string"}}}}}}');
    const legs = json('{"legs":[{"note":"n","side":"buy"},{"side":"sell"},{"note":"m","side":"hold"}]}');
    const form = fieldsOf(list, legs)!;
    const made = (change: (entries: FieldDraft[]) => FieldDraft[]) => {
      const draft = newEdit(form, legs);
      const read = readEdit({ ...draft, texts: { legs: change(draft.texts.legs as FieldDraft[]) } }, form, legs);
      return read.ok && stringifyJson(read.args);
    };
    expect(made((all) => all)).toBe(stringifyJson(legs));
    expect(made(([, ...rest]) => rest)).toBe('{"legs":[{"side":"sell"},{"note":"m","side":"hold"}]}');
    expect(made(([, , last]) => [last!, { side: "new", note: "" }])).toBe('{"legs":[{"note":"m","side":"hold"},{"side":"new"}]}');
    expect(made(([, second]) => [{ ...(second as object), side: "all" }])).toBe('{"legs":[{"side":"all"}]}');
  });

  it("say where a limit is broken", () => {
    expect(result({ legs: [{ side: '"buy"', lots: "10" }, { side: "", lots: "15" }] })).toEqual({
      "legs/1/side": { key: "edit.error.required" },
      "legs/1/lots": { key: "edit.error.multiple", n: "10" },
    });
    expect(result({ legs: [] })).toEqual({ legs: { key: "edit.error.minItems", n: "1" } });
  });

  it("stay JSON while the form could not show what was written", () => {
    const raw = { ...switchTab(draft, form, given), raw: '{"legs":[{"side":"buy","lots":10}],"new":1}' };
    expect(switchTab(raw, form, given)).toBe(raw);
    expect(switchTab({ ...raw, raw: '{"legs":[{"side":"buy","lots":10}]}' }, form, given).tab).toBe("form");
  });

  it("do not grow without bound, however the schema repeats itself", () => {
    const loop = json('{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}}}}}');
    const count = (all: Field[] | undefined): number => (all ?? []).reduce((sum, f) => sum + 1 + count(f.fields), 0);
    expect(count(fieldsOf({ ...loop, properties: { top: { $ref: "#/$defs/n" } } }, {}))).toBeLessThan(100);
  });
});

describe("diff", () => {
  it("lists what changed, old and new, and nothing else", () => {
    const before = json('{"a":1,"b":{"c":[1,{"d":2}]},"gone":true,"same":1.10,"odd key":1}');
    const after = json('{"a":1.0,"b":{"c":[1,{"d":3},4]},"same":1.10,"odd key":2}');
    expect(diff(before, after).map((c) => [c.path, c.before?.toString(), c.after?.toString()])).toEqual([
      ["a", "1", "1.0"],
      ["b.c[1].d", "2", "3"],
      ["b.c[2]", undefined, "4"],
      ["gone", "true", undefined],
      ['"odd key"', "1", "2"],
    ]);
  });
});
