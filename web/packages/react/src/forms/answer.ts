/**
 * The form for answering the question of a graph's node, from the JSON Schema that the answer must fit.
 *
 * Simple values get a fitting field: yes or no, a choice, a text, a number, an object or a list of these. Anything else
 * is written as JSON. Text becomes a value without passing through a JavaScript number. The server checks the whole
 * schema.
 */
import { isObject, stringifyJson, type JsonObject, type JsonValue } from "@countersign/client";
import { fieldsOf, newEdit, readEdit, type Field, type FieldDraft, type FieldErrors, type Reading } from "./form.js";
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
  /** Whether it is written as JSON although there is a form. */
  json?: boolean;
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
  const reading = { titles: true, rules, root: schema };
  const plain = plainly(schema, schema);
  if (isObject(plain.properties) && (plain.type === undefined || plain.type === "object")) {
    return objectForm(plain, schema, reading);
  }
  if (plain.type === "boolean") return { kind: "boolean" };
  const field = fieldsOf({ type: "object", properties: { [ANSWER]: plain }, required: [ANSWER] }, {}, reading)?.[0];
  if (!field || field.kind === "json") return json;
  if (field.kind === "enum" && field.options && field.options.length <= BUTTONS) {
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

/** Members of an object beside its properties could not be seen in a form, so such an object is written as JSON. */
function objectForm(plain: JsonObject, root: JsonObject, reading: Reading): AnswerForm {
  const properties = isObject(plain.properties) ? plain.properties : {};
  if (["oneOf", "anyOf", "allOf"].some((name) => plain[name] !== undefined)) return json;
  const simple = Object.entries(properties).map(([name, property]): [string, JsonValue] => [
    name,
    isObject(property) ? plainly(property, root) : property,
  ]);
  const fields = fieldsOf({ ...plain, properties: Object.fromEntries(simple) }, {}, reading);
  if (!fields) return json;
  const begin = simple.flatMap(([name, property]): [string, JsonValue][] =>
    isObject(property) && fitsChoices(fields.find((f) => f.name === name), property.default) ? [[name, property.default!]] : [],
  );
  return { kind: "object", fields, begin: Object.fromEntries(begin) };
}

/** A default that is not one of the choices is ignored. */
function fitsChoices(field: Field | undefined, value: JsonValue | undefined): boolean {
  if (value === undefined || value === null) return false;
  if (field?.kind !== "enum" && field?.kind !== "choices") return true;
  const chosen = field.kind === "enum" ? [value] : Array.isArray(value) ? value : undefined;
  return chosen?.every((one) => field.options?.includes(stringifyJson(one))) ?? false;
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
