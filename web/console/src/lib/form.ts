/**
 * A form for a tool's arguments, from their JSON Schema.
 *
 * Each property becomes one field that holds text. Plain types get a fitting field; anything nested gets
 * a small JSON editor of its own. Text is turned into a value without passing through a JavaScript
 * number, so nothing is rounded. The server checks the whole schema; here only what a field itself must be.
 */
import {
  equalJson,
  isNumber,
  isNumberText,
  isObject,
  numberFromText,
  parseJson,
  stringifyJson,
  type JsonObject,
  type JsonValue,
} from "@countersign/client";
import { brokenRule, momentOf, rulesOf, type Format, type RuleError, type Rules } from "./rules.js";

/** `choices`: any of the options, as a JSON array. */
export type FieldKind = "string" | "number" | "integer" | "boolean" | "enum" | "choices" | "json";

export interface Field {
  name: string;
  kind: FieldKind;
  required: boolean;
  /** What people call it, in place of its name. */
  title?: string;
  description?: string;
  /** The choices of an enum, each as JSON text. */
  options?: string[];
  /** What people call them, in the same order. */
  labels?: string[];
  /** What is checked before it is sent. */
  rules?: Rules;
  /** Where it is required, an empty text is none. */
  filled?: boolean;
}

/** What more is made of a schema where it is a form that people are asked to fill in, not that of arguments. */
export interface Reading {
  /** Titles, and lists of choices. */
  titles?: boolean;
  /** Simple rules are checked here, and not by the server alone; of a tool's arguments the limits, since only those bind. */
  rules?: boolean | "limits";
}

/** An edit in progress. Kept as text so that half-typed input survives a reload. */
export interface EditDraft {
  tab: "form" | "json";
  texts: Record<string, string>;
  raw: string;
}

export type FieldError = { key: "edit.error.required" | "edit.error.number" | "edit.error.integer" | "edit.error.object" }
  /** Where in its text it stops being JSON, from 1. */
  | { key: "edit.error.json"; line: number; column: number }
  /** The name that an object has twice. */
  | { key: "edit.error.duplicate"; n: string }
  | RuleError;

export type EditResult = { ok: true; args: JsonObject } | { ok: false; errors: Record<string, FieldError> };

/** The error of the raw editor has no field of its own. */
export const WHOLE = "";

/** The fields, or nothing where the schema is not that of an object with known properties. */
export function fieldsOf(schema: JsonObject | undefined, args: JsonObject, reading: Reading = {}): Field[] | undefined {
  if (!schema || !isObject(schema.properties)) return undefined;
  const properties = schema.properties;
  const required = Array.isArray(schema.required) ? schema.required : [];
  const extra = Object.keys(args).filter((name) => !Object.hasOwn(properties, name));
  const names = [...Object.keys(properties), ...extra];
  if (names.length === 0) return undefined;
  return names.map((name) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const value = Object.hasOwn(args, name) ? args[name] : undefined;
    return field(name, isObject(property) ? property : {}, value, required.includes(name), reading);
  });
}

function field(
  name: string,
  schema: JsonObject,
  value: JsonValue | undefined,
  required: boolean,
  { titles, rules }: Reading,
): Field {
  const base = {
    name,
    required,
    ...(titles && typeof schema.title === "string" && schema.title.trim() !== "" ? { title: schema.title } : {}),
    ...(rules ? { rules: rulesOf(schema, rules === true) } : {}),
    ...(rules === true ? { filled: true } : {}),
    ...(typeof schema.description === "string" ? { description: schema.description } : {}),
  };
  if (Array.isArray(schema.enum)) {
    const choices = schema.enum;
    if (value === undefined || choices.some((choice) => equalJson(choice, value))) {
      return { ...base, kind: "enum", ...optionsOf(schema, choices, titles) };
    }
  }
  const items = titles && schema.type === "array" && isObject(schema.items) ? schema.items : undefined;
  if (items && Array.isArray(items.enum) && items.enum.length > 0) {
    const choices = items.enum;
    const chosen = value === undefined ? [] : Array.isArray(value) ? value : undefined;
    if (chosen?.every((one) => choices.some((choice) => equalJson(choice, one)))) {
      return { ...base, kind: "choices", ...optionsOf(items, choices, titles) };
    }
  }
  const kind = schema.type;
  const fits =
    value === undefined ||
    (kind === "string" && typeof value === "string") ||
    ((kind === "number" || kind === "integer") && isNumber(value)) ||
    (kind === "boolean" && typeof value === "boolean");
  if (fits && (kind === "string" || kind === "number" || kind === "integer" || kind === "boolean")) {
    return { ...base, kind };
  }
  // An argument that the schema does not describe, of a plain type.
  if (kind === undefined && typeof value === "string") return { ...base, kind: "string" };
  if (kind === undefined && isNumber(value)) return { ...base, kind: "number" };
  return { ...base, kind: "json" };
}

/** The names of choices stand beside them, as the older form of MCP's questions has it. */
function optionsOf(schema: JsonObject, choices: JsonValue[], titles = false): Pick<Field, "options" | "labels"> {
  const options = choices.map((choice) => stringifyJson(choice));
  const names = schema.enumNames;
  const named = titles && Array.isArray(names) && names.length === options.length && names.every((n) => typeof n === "string");
  return named ? { options, labels: names } : { options };
}

/** Which of a field's options are chosen, each as JSON text. */
export function chosenOf(text: string): string[] {
  try {
    const value = text === "" ? [] : parseJson(text);
    return Array.isArray(value) ? value.map((one) => stringifyJson(one)) : [];
  } catch {
    return [];
  }
}

export function fieldText(field: Field, value: JsonValue | undefined): string {
  if (value === undefined) return "";
  if (field.kind === "string" && typeof value === "string") return value;
  return stringifyJson(value, field.kind === "json" ? 2 : undefined);
}

export function newEdit(fields: Field[] | undefined, args: JsonObject): EditDraft {
  const texts = (fields ?? []).map((f) => [f.name, fieldText(f, Object.hasOwn(args, f.name) ? args[f.name] : undefined)]);
  return {
    tab: fields ? "form" : "json",
    texts: Object.fromEntries(texts) as Record<string, string>,
    raw: stringifyJson(args, 2),
  };
}

export function readEdit(draft: EditDraft, fields: Field[] | undefined, original: JsonObject): EditResult {
  return draft.tab === "form" && fields ? readForm(draft.texts, fields, original) : readRaw(draft.raw);
}

/** The same edit on the other tab; nothing changes where the text of the raw editor cannot be read. */
export function switchTab(draft: EditDraft, fields: Field[], original: JsonObject): EditDraft {
  const read = readEdit(draft, fields, original);
  if (!read.ok) return draft;
  const fresh = newEdit(fields, read.args);
  return { ...fresh, tab: draft.tab === "form" ? "json" : "form" };
}

function readRaw(raw: string): EditResult {
  try {
    const args = parseJson(raw);
    if (isObject(args)) return { ok: true, args };
    return { ok: false, errors: { [WHOLE]: { key: "edit.error.object" } } };
  } catch (error) {
    return { ok: false, errors: { [WHOLE]: jsonError(error, raw) } };
  }
}

function readForm(texts: Record<string, string>, fields: Field[], original: JsonObject): EditResult {
  const errors: Record<string, FieldError> = {};
  const values = new Map<string, JsonValue>();
  for (const field of fields) {
    const before = Object.hasOwn(original, field.name) ? original[field.name] : undefined;
    const read = readField(field, texts[field.name] ?? "", before);
    if ("error" in read) errors[field.name] = read.error;
    else if (read.value !== undefined) values.set(field.name, read.value);
  }
  if (Object.keys(errors).length > 0) return { ok: false, errors };
  // The order the model wrote them in, then what is new.
  const names = [...Object.keys(original), ...fields.map((f) => f.name)];
  const entries = [...new Set(names)].flatMap((name): [string, JsonValue][] => {
    const value = values.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return { ok: true, args: Object.fromEntries(entries) };
}

type FieldResult = { value: JsonValue | undefined } | { error: FieldError };

function readField(field: Field, text: string, before: JsonValue | undefined): FieldResult {
  const read = readPlain(field, text, before);
  const broken = field.rules && "value" in read && read.value !== undefined ? brokenRule(field.rules, read.value) : undefined;
  return broken ? { error: broken } : read;
}

function readPlain(field: Field, text: string, before: JsonValue | undefined): FieldResult {
  const { rules } = field;
  if (field.kind === "string") {
    if (field.filled && field.required && text === "") return { error: { key: "edit.error.required" } };
    // An empty text is a value where there was one, or where there must be one; else it is "not set".
    const unset = text === "" && before === undefined && !field.required;
    return { value: unset ? undefined : rules?.format ? formatted(rules.format, text.trim()) : text };
  }
  const trimmed = text.trim();
  if (field.kind === "choices") {
    const chosen = chosenOf(trimmed).map((one) => parseJson(one));
    if (chosen.length > 0) return { value: chosen };
    if (field.required && rules?.minItems) return { error: { key: "edit.error.required" } };
    return { value: field.required ? [] : undefined };
  }
  if (trimmed === "") {
    return field.required ? { error: { key: "edit.error.required" } } : { value: undefined };
  }
  if (field.kind === "number" || field.kind === "integer") {
    if (!isNumberText(trimmed)) return { error: { key: "edit.error.number" } };
    if (field.kind === "integer" && !isWhole(trimmed)) return { error: { key: "edit.error.integer" } };
    return { value: numberFromText(trimmed) };
  }
  try {
    return { value: parseJson(trimmed) };
  } catch (error) {
    return { error: jsonError(error, trimmed) };
  }
}

const formatted = (format: Format, text: string) => (format === "date-time" ? momentOf(text) : text);

/** JSON Schema counts 1.0 as a whole number; with an exponent we leave it to the server. */
function isWhole(text: string): boolean {
  return /[eE]/.test(text) || /^-?\d+(\.0+)?$/.test(text);
}

/** The parser's words are English; what they say is where. */
function jsonError(error: unknown, text: string): FieldError {
  const message = error instanceof Error ? error.message : "";
  const twice = /^Duplicate key '(.*)' encountered/s.exec(message);
  if (twice) return { key: "edit.error.duplicate", n: twice[1]! };
  const before = text.slice(0, Number(/position (\d+)$/.exec(message)?.[1] ?? text.length)).split("\n");
  return { key: "edit.error.json", line: before.length, column: [...before.at(-1)!].length + 1 };
}
