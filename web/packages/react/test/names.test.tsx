// @vitest-environment jsdom
/** Fields that are called like what every JavaScript object has. */
import { describe, expect, it, vi } from "vitest";
import { parseJson, stringifyJson, type JsonObject } from "@countersign/client";
import { emptyAnswer, readAnswer } from "../src/forms/answer.js";
import { diff } from "../src/forms/diff.js";
import { elicitationForm } from "../src/forms/elicitation.js";
import { errorAt, fieldsOf, newEdit, readEdit } from "../src/forms/form.js";
import { argTable } from "../src/forms/rows.js";
import { ApprovalCard, type CardReply } from "../src/index.js";
import { alert, button, click, labelled, request, show, write } from "./page.js";

const NAMES = ["constructor", "toString", "valueOf", "__proto__"];
const json = (text: string) => parseJson(text) as JsonObject;
const members = (value: (name: string) => string) => `{${NAMES.map((name) => `"${name}":${value(name)}`).join(",")}}`;
const schema = json(`{"type":"object","required":${JSON.stringify(NAMES)},"properties":${members(() => '{"type":"integer","maximum":9}')}}`);
const args = json(members((name) => String(NAMES.indexOf(name) + 1)));
const fields = fieldsOf(schema, args, { rules: "limits" })!;

/** The draft with another text in one field. */
const typed = (name: string, text: string) => {
  const draft = newEdit(fields, args);
  return { ...draft, texts: Object.fromEntries([...Object.entries(draft.texts), [name, text]]) };
};

describe("u2: arguments with the names of what objects inherit", () => {
  it("are rows of the table", () => {
    expect(argTable(args, schema).rows.map(({ name, value }) => [name, value])).toEqual(NAMES.map((name, i) => [name, i + 1]));
    expect(argTable({}, schema).unset.map(({ name }) => name)).toEqual(NAMES);
  });

  it.each(NAMES)("are refused while they cannot be read, and kept when they can: %s", (name) => {
    for (const [text, key] of [["12x", "edit.error.number"], ["10", "edit.error.max"], ["", "edit.error.required"]] as const) {
      const wrong = readEdit(typed(name, text), fields, args);
      expect([wrong.ok, !wrong.ok && Object.keys(wrong.errors), !wrong.ok && errorAt(wrong.errors, name)?.key]).toEqual([false, [name], key]);
      // The others have no error of their own.
      for (const other of NAMES) if (other !== name) expect(!wrong.ok && errorAt(wrong.errors, other)).toBeUndefined();
    }
    const right = readEdit(typed(name, "7"), fields, args);
    const after = members((one) => (one === name ? "7" : String(NAMES.indexOf(one) + 1)));
    expect(right.ok && stringifyJson(right.args)).toBe(after);
    expect(right.ok && diff(args, right.args)).toEqual([{ path: name, at: [name], before: NAMES.indexOf(name) + 1, after: 7 }]);
  });

  it("are refused where the schema does not know them, too", () => {
    const call = json('{"price":"1","__proto__":5}');
    const known = fieldsOf(json('{"type":"object","properties":{"price":{"type":"string"}}}'), call)!;
    const draft = newEdit(known, call);
    const texts = Object.fromEntries([...Object.entries(draft.texts), ["__proto__", "12x"]]);
    expect(readEdit({ ...draft, texts }, known, call).ok).toBe(false);
    const same = readEdit(draft, known, call);
    expect(same.ok && stringifyJson(same.args)).toBe('{"price":"1","__proto__":5}');
  });

  it("are shown, edited and sent by the card", async () => {
    const sent: CardReply[] = [];
    const onReply = vi.fn(async (_: unknown, reply: CardReply) => void sent.push(reply));
    const approval = request({ actions: [{ name: "pay", args, digest: "d1" }], reviewConfigs: [{ allowed_decisions: ["approve", "edit"], args_schema: schema }] });
    const { page } = await show(<ApprovalCard approval={approval} onReply={onReply} />);
    expect([...page.querySelectorAll('[data-part="arg"]')].map((row) => row.textContent)).toEqual(NAMES.map((name, i) => `${name}${i + 1}`));
    await click(labelled(page, "Edit"));
    const field = page.querySelector('input[id$="-__proto__"]');
    await write(field, "12x");
    expect([...page.querySelectorAll('[data-part="editor"] [data-part="problem"]')].map((one) => one.textContent)).toEqual(["This is not a number."]);
    await click(button(page, "Send"));
    expect([alert(page), sent.length]).toEqual(["Fix the marked fields first.", 0]);
    await write(field, "7");
    await click(button(page, "Send"));
    expect(stringifyJson(sent)).toContain('"args":{"constructor":1,"toString":2,"valueOf":3,"__proto__":7}');
  });

  it("are fields of what an MCP server asks", async () => {
    const form = elicitationForm({ from: "shop", message: "?", schema });
    const empty = readAnswer(form, emptyAnswer(form));
    expect(!empty.ok && Object.keys(empty.errors)).toEqual(NAMES);
    const accept = { type: "object", properties: { action: { const: "accept" }, content: schema } };
    const interrupt = { node: "", name: "", payload: { from: "shop", message: "?", mode: "form" }, schema: { oneOf: [accept] } };
    const sent: CardReply[] = [];
    const onReply = vi.fn(async (_: unknown, reply: CardReply) => void sent.push(reply));
    const { page } = await show(<ApprovalCard approval={request({ kind: "input", interrupt: interrupt as never })} onReply={onReply} />);
    const inputs = [...page.querySelectorAll('input[type="text"]')];
    for (const input of inputs.slice(0, 3)) await write(input, "1");
    await click(button(page, "Accept and send"));
    expect([[...page.querySelectorAll('[data-part="problem"]')].map((one) => one.textContent), sent]).toEqual([["This field is required."], []]);
    await write(inputs[3]!, "2");
    await click(button(page, "Accept and send"));
    expect(stringifyJson(sent)).toBe('[{"resume":{"action":"accept","content":{"constructor":1,"toString":1,"valueOf":1,"__proto__":2}}}]');
  });
});
