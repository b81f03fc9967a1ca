import { describe, expect, test } from "vitest";
import { parseJson, stringifyJson, type ApprovalView, type JsonObject, type JsonValue } from "@countersign/client";
import { emptyAnswer, readAnswer } from "../src/forms/answer.js";
import { elicitationForm, elicitationOf, formProblems, elicitationResultOf } from "../src/forms/elicitation.js";

/** As the server makes the schema of the answer. */
const answer = (content?: JsonValue): JsonObject => ({
  type: "object",
  required: ["action"],
  oneOf: [
    { type: "object", properties: { action: { const: "accept" }, ...(content === undefined ? {} : { content }) } },
    { type: "object", properties: { action: { enum: ["decline", "cancel"] } } },
  ],
});
const asked = (payload: JsonValue, schema: JsonValue, kind: ApprovalView["kind"] = "input") =>
  elicitationOf({
    approvalKey: "k", sessionId: "s", kind, actions: [], reviewConfigs: [], complete: true, updates: [],
    interrupt: { node: "shop", name: "q", payload, schema: schema as JsonObject },
  });
const form = (content: string) => asked({ from: "shop", mode: "form", message: "Who?" }, answer(parseJson(content)))!;
const address = (url: string) => asked({ from: "shop", mode: "url", message: "Go", url, host: "h" }, answer())?.address;

const fields = form(`{"type":"object","required":["name","n","tags"],"properties":{
  "name":{"type":"string","title":"Your name","maxLength":3},
  "n":{"type":"integer","minimum":1,"maximum":10},
  "above":{"type":"number","exclusiveMinimum":0.5},
  "mail":{"type":"string","format":"email"},
  "site":{"type":"string","format":"uri"},
  "day":{"type":"string","format":"date"},
  "at":{"type":"string","format":"date-time"},
  "ok":{"type":"boolean","default":true},
  "size":{"type":"string","oneOf":[{"const":"s","title":"Small"},{"const":"l","title":"Large"}],"default":"xl"},
  "pet":{"type":"string","enum":["p1","p2"],"enumNames":["Cat","Dog"],"default":"p2"},
  "tags":{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"a","title":"A!"},{"const":"b"},{"const":"c"}]}},
  "many":{"type":"array","items":{"enum":["x","y"]},"default":["y"]}}}`);

/** The answer that these texts give; or which field is wrong, and how. */
const sent = (texts: Record<string, string>) => {
  const made = elicitationForm(fields);
  const read = readAnswer(made, { texts: { ...emptyAnswer(made).texts, ...texts } });
  if (read.ok) return stringifyJson(read.value);
  return Object.entries(read.errors).map(([name, e]) => [name, e.key.replace("edit.error.", ""), "n" in e ? e.n : ""].join(" ").trim());
};
const good = { name: "Al", n: "3", tags: '["a"]' };

describe("s13: what an MCP server asks", () => {
  test("is told from other questions", () => {
    const payload = { from: "shop", mode: "form", message: "Who?" };
    expect(asked(payload, answer({ type: "object" }))).toMatchObject({ from: "shop", message: "Who?" });
    expect(asked(payload, answer({ type: "object" }), "interrupt")).toBeUndefined();
    expect(asked(payload, { type: "string" })).toBeUndefined();
    expect(asked({ ...payload, mode: "new" }, answer({ type: "object" }))).toBeUndefined();
    expect(asked("text", answer({ type: "object" }))).toBeUndefined();
  });

  test("a form has a field for each of its kinds of values, under its title", () => {
    const made = elicitationForm(fields);
    expect(made.kind === "object" && made.fields.map((f) => [f.name, f.kind, f.title ?? "", f.labels ?? ""].join(" ").trim())).toEqual([
      "name string Your name", "n integer", "above number", "mail string", "site string", "day string", "at string",
      "ok boolean", "size enum  Small,Large", "pet enum  Cat,Dog", "tags choices  A!,b,c", "many choices",
    ]);
  });

  test("defaults are there from the beginning, unless they are none of the choices", () => {
    expect(sent(good)).toBe('{"name":"Al","n":3,"ok":true,"pet":"p2","tags":["a"],"many":["y"]}');
    // One that is taken back is not sent by leaving it out, or it would be the default again.
    expect(sent({ ...good, many: "[]" })).toContain('"many":[]');
  });

  test("what is required is there, and what has limits keeps to them", () => {
    expect(sent({})).toEqual(["name required", "n required", "tags required"]);
    expect(sent({ ...good, name: "Alice", n: "11", above: "0.5", tags: '["a","b","c"]' })).toEqual([
      "name maxLength 3", "n max 10", "above above 0.5", "tags maxItems 2",
    ]);
    expect(sent({ ...good, n: "0" })).toEqual(["n min 1"]);
    expect(sent({ ...good, name: "👍🏽x", n: "1", above: "0.51" })).toContain('"above":0.51');
  });

  test("texts have the format that is asked for", () => {
    expect(sent({ ...good, mail: "a b@c", site: "example.com", day: "2026-02-30", at: "tomorrow" })).toEqual([
      "mail email", "site uri", "day date", "at dateTime",
    ]);
    const right = { mail: "a@b.vn ", site: "https://example.com/ü", day: "2024-02-29", at: "2026-01-31T09:30:00+07:00" };
    expect(sent({ ...good, ...right })).toContain(
      '"mail":"a@b.vn","site":"https://example.com/ü","day":"2024-02-29","at":"2026-01-31T09:30:00+07:00"',
    );
    // From the browser's own field, which knows no zone.
    expect(sent({ ...good, at: "2026-01-31T09:30" })).toContain(`"at":"${new Date(2026, 0, 31, 9, 30).toISOString().replace(".000", "")}"`);
  });

  test("one without fields asks for a yes alone", () => {
    const made = elicitationForm(form('{"type":"object","properties":{}}'));
    expect(made).toEqual({ kind: "object", fields: [], begin: {} });
    expect(readAnswer(made, emptyAnswer(made))).toEqual({ ok: true, value: {} });
  });

  test("an address is linked to if it is that of a web page, with the host that it really leads to", () => {
    expect(address("https://good.example@evil.example/x")).toMatchObject({ host: "evil.example", href: "https://good.example@evil.example/x" });
    expect(address("http://a.example:8080/")?.host).toBe("a.example:8080");
    for (const url of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "JavaScript://a.example/%0aalert(1)", "no address"]) {
      expect(address(url)).toEqual({ url, host: "h" });
    }
  });

  test("what the server finds wrong is about the fields", () => {
    const found = formProblems([{ pointer: "/content/n", message: "a" }, { pointer: "/content", message: "b" }, { pointer: "", message: "c" }]);
    expect(found.map((p) => p.pointer)).toEqual(["/n", "", ""]);
  });

  test("what was answered is shown under the names that people know", () => {
    expect(elicitationResultOf(fields, { action: "accept", content: { name: "Al", n: 3 } })).toEqual({
      action: "accept",
      content: { "Your name": "Al", n: 3 },
    });
    expect(elicitationResultOf(fields, { action: "decline" })).toEqual({ action: "decline" });
    expect(elicitationResultOf(fields, "yes")).toBeUndefined();
  });
});
