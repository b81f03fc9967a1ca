/**
 * The form for answering the question of a graph's node, from the JSON Schema that the answer must fit.
 *
 * Simple values get a fitting field: yes or no, a choice, a text, a number, an object or a list of these. Anything else
 * is written as JSON. Text becomes a value without passing through a JavaScript number. The server checks the whole
 * schema.
 */
import { isNumber, isObject, type JsonObject, type JsonValue } from "@countersign/client";
import { fieldsOf, fits, newEdit, readEdit, type Field, type FieldDraft, type FieldErrors, type Reading } from "./form.js";
import { plainly } from "./schema.js";

export type AnswerForm =
  | { kind: "boolean" }
  /** Choices, few enough for a button each. */
  | { kind: "buttons"; options: string[]; labels?: string[] }
  | { kind: "field"; field: Field }
  | { kind: "object"; fields: Field[]; begin: JsonObject };

/** A form whose fields are filled in before it is sent. */
export type FieldsForm = Extract<AnswerForm, { kind: "object" | "field" }>;

/** Kept as text, so that half-typed input survives a reload. */
export interface AnswerDraft {
  texts: Record<string, FieldDraft>;
}

export type AnswerResult = { ok: true; value: JsonValue } | { ok: false; errors: FieldErrors };

/** The name of the only field, if the answer is one value. */
export const ANSWER = "";

/** More choices than this are shown as a list. */
const BUTTONS = 4;

/** Any value, written as JSON. */
export const json: FieldsForm = { kind: "field", field: { name: ANSWER, kind: "json", required: true } };

/** `rules`: simple rules of the fields' own schemas are checked before it is sent. */
export function answerForm(schema: JsonValue | undefined, rules = false): AnswerForm {
  if (!isObject(schema)) return json;
  const reading = { titles: true, rules, nulls: true, root: schema };
  const plain = plainly(schema, schema);
  if (isObject(plain.properties) && (plain.type === undefined || plain.type === "object")) {
    return objectForm(plain, schema, reading);
  }
  const field = fieldsOf({ type: "object", properties: { [ANSWER]: schema }, required: [ANSWER] }, {}, reading)?.[0];
  if (!field || field.kind === "json") return json;
  if (field.kind === "boolean" && !field.emptyIsNull) return { kind: "boolean" };
  if (field.kind === "enum" && !field.emptyIsNull && field.options && field.options.length <= BUTTONS) {
    return { kind: "buttons", options: field.options, ...(field.labels ? { labels: field.labels } : {}) };
  }
  return { kind: "field", field };
}

/** The same, always as fields, for cards with one button that sends them. */
export function answerFields(schema: JsonValue | undefined, rules = false): FieldsForm {
  const form = answerForm(schema, rules);
  if (form.kind === "boolean") return { kind: "field", field: { name: ANSWER, kind: "boolean", required: true } };
  if (form.kind !== "buttons") return form;
  const { options, labels } = form;
  return { kind: "field", field: { name: ANSWER, kind: "enum", required: true, options, ...(labels ? { labels } : {}) } };
}

/** Members of an object beside its properties could not be entered in a form, so such an object is written as JSON. */
function objectForm(plain: JsonObject, root: JsonObject, reading: Reading): AnswerForm {
  const properties = isObject(plain.properties) ? plain.properties : {};
  const required = Array.isArray(plain.required) ? plain.required : [];
  const least = isNumber(plain.minProperties) ? Number(plain.minProperties) : 0;
  const has = (name: JsonValue) => typeof name === "string" && Object.hasOwn(properties, name);
  if (!required.every(has) || least > Object.keys(properties).length) return json;
  if (["oneOf", "anyOf", "allOf"].some((name) => plain[name] !== undefined)) return json;
  const fields = fieldsOf(plain, {}, reading);
  if (!fields) return json;
  // A default that its field cannot show, or that is none of the choices, is ignored.
  const begin = fields.flatMap((field): [string, JsonValue][] => {
    const property = properties[field.name];
    const value = isObject(property) ? plainly(property, root).default : undefined;
    return value === undefined || value === null || !fits(field, value) ? [] : [[field.name, value]];
  });
  return { kind: "object", fields, begin: Object.fromEntries(begin) };
}

export function emptyAnswer(form: AnswerForm): AnswerDraft {
  return { texts: form.kind === "object" ? newEdit(form.fields, form.begin).texts : { [ANSWER]: "" } };
}

/** The value entered, or the errors of each field's text. */
export function readAnswer(form: AnswerForm, draft: AnswerDraft): AnswerResult {
  const fields = form.kind === "object" ? form.fields : form.kind === "field" ? [form.field] : [];
  const read = readEdit({ tab: "form", texts: draft.texts, raw: "" }, fields, {});
  if (!read.ok) return read;
  return { ok: true, value: form.kind === "object" ? read.args : (read.args[ANSWER] ?? null) };
}
