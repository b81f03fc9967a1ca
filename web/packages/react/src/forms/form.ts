/**
 * A form for a tool's arguments, from their JSON Schema.
 *
 * Each property becomes a field that holds text, or, if it is an object or a list, a form of its own; anything that no
 * form can show is written as JSON. Text is turned into a value without passing through a JavaScript number, so nothing
 * is rounded. The server checks the whole schema; only a field's own rules are checked here.
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
import { tooExact } from "./digits.js";
import { brokenRule, formatOf, isLocalMoment, momentOf, rulesOf, type Format, type RuleError, type Rules } from "./rules.js";
import { membersOf, orderOf, plainly, takesNull, titleOf, unitOf } from "./schema.js";

/** `choices`: any of the options, as a JSON array. */
export type FieldKind = "string" | "number" | "integer" | "boolean" | "enum" | "choices" | "object" | "list" | "json";

export interface Field {
  name: string;
  kind: FieldKind;
  required: boolean;
  /** The title that people see, in place of its name. */
  title?: string;
  description?: string;
  /** The unit of its numbers. */
  unit?: string;
  /** For a text: its format. It is checked only if the rules have it too. */
  format?: Format;
  /** The choices of an enum, each as JSON text. */
  options?: string[];
  /** Their titles, in the same order. */
  labels?: string[];
  /** For an object: its members. */
  fields?: Field[];
  /** For a list: the field of each entry. */
  item?: Field;
  /** The rules checked before it is sent. */
  rules?: Rules;
  /** Whether an empty text counts as missing if the field is required. */
  filled?: boolean;
  /** Whether it is null where nothing is entered: it must be there, and may be null. */
  emptyIsNull?: boolean;
}

/** Further features of a schema for a form that people are asked to fill in, not for one of arguments. */
export interface Reading {
  /** Titles, and lists of choices. */
  titles?: boolean;
  /**
   * Simple rules are checked here, and not only by the server; for a tool's arguments only the limits, since only those
   * bind.
   */
  rules?: boolean | "limits";
  /** Fields in the order of `orderOf`. */
  ordered?: boolean;
  /** Whether what may be null can be left empty. */
  nulls?: boolean;
  /** The whole schema, into which references point, if it is not the one being read. */
  root?: JsonObject;
}

/** The input of a field: text, or for an object or a list the input of each of its fields. Empty: it is not set. */
export type FieldDraft = string | FieldDraft[] | { [name: string]: FieldDraft };

/** An edit in progress. Kept as text so that half-typed input survives a reload. */
export interface EditDraft {
  tab: "form" | "json";
  texts: Record<string, FieldDraft>;
  raw: string;
}

export type FieldError = { key: "edit.error.required" | "edit.error.number" | "edit.error.integer" | "edit.error.object" }
  /** Where its text stops being JSON, from 1. */
  | { key: "edit.error.json"; line: number; column: number }
  /** The member name that occurs twice in an object. */
  | { key: "edit.error.duplicate"; n: string }
  /** A number that the server refuses, since it cannot be held exactly. */
  | { key: "edit.error.digits"; n: string }
  | RuleError;

/** Each by its place: `price`, `legs/0/price`. Read them with `errorAt`: a field may be called `constructor`. */
export type FieldErrors = Record<string, FieldError>;

export type EditResult = { ok: true; args: JsonObject } | { ok: false; errors: FieldErrors };

/** The error of the raw editor has no field of its own. */
export const WHOLE = "";

/** Without a prototype: an error of a field that is called `__proto__` would be lost in that of an ordinary object. */
const noErrors = (): FieldErrors => Object.create(null) as FieldErrors;

/** The error at a place, whatever the field is called. */
export function errorAt(errors: FieldErrors, place: string): FieldError | undefined {
  return Object.hasOwn(errors, place) ? errors[place] : undefined;
}

/** The place of a part, in the form of JSON pointers without the first slash. */
export function placeIn(place: string, part: string | number): string {
  const step = String(part).replaceAll("~", "~0").replaceAll("/", "~1");
  return place === "" ? step : `${place}/${step}`;
}

/** Deeper objects and lists are written as JSON, and so are lists of more entries. */
const DEPTH = 4;
export const MOST_ENTRIES = 50;
/** Fields of a form with all its inner ones, counting each list once. */
const MOST_FIELDS = 200;

/** The shared context of a schema's parts while it is read. */
interface Context extends Reading {
  root: JsonObject;
  left: { fields: number };
  depth: number;
}

/** The fields, or `undefined` if the schema is not of an object with known properties. */
export function fieldsOf(schema: JsonObject | undefined, args: JsonObject, reading: Reading = {}): Field[] | undefined {
  if (!schema || !isObject(schema.properties)) return undefined;
  const fields = membersFields(schema, schema.properties, args, { root: schema, ...reading, left: { fields: MOST_FIELDS }, depth: 0 });
  return fields.length === 0 ? undefined : fields;
}

function membersFields(schema: JsonObject, properties: JsonObject, value: JsonObject, context: Context): Field[] {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const extra = Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
  const names = context.ordered ? orderOf({ ...schema, properties }) : Object.keys(properties);
  return [...names, ...extra].map((name) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    const own = Object.hasOwn(value, name) ? value[name] : undefined;
    const made = field(name, isObject(property) ? plainly(property, context.root) : {}, own, required.includes(name), context);
    const isNullable = context.nulls && made.required && isObject(property) && takesNull(property, context.root);
    return isNullable ? { ...made, required: false, emptyIsNull: true } : made;
  });
}

function field(name: string, schema: JsonObject, value: JsonValue | undefined, required: boolean, context: Context): Field {
  const { titles, rules } = context;
  context.left.fields -= 1;
  const title = titles ? titleOf(schema) : undefined;
  const unit = titles ? unitOf(schema) : undefined;
  const format = schema.type === "string" ? formatOf(schema) : undefined;
  const base = {
    name,
    required,
    ...(title === undefined ? {} : { title }),
    ...(unit === undefined ? {} : { unit }),
    ...(format === undefined ? {} : { format }),
    ...(rules ? { rules: rulesOf(schema, rules === true) } : {}),
    ...(rules === true ? { filled: true } : {}),
    ...(typeof schema.description === "string" ? { description: schema.description } : {}),
  };
  const made = { ...base, ...kindOf(schema, value, context) };
  // A field must show the exact value: read back, it is the same.
  return value === undefined || fits(made, value) ? made : { ...base, kind: typeof value === "string" && isKept(value) ? "string" : "json" };
}

type Kind = Pick<Field, "kind" | "options" | "labels" | "fields" | "item">;

function kindOf(schema: JsonObject, value: JsonValue | undefined, context: Context): Kind {
  if (Array.isArray(schema.enum)) return { kind: "enum", ...optionsOf(schema, schema.enum, context.titles) };
  const kind = schema.type;
  if (kind === "string" || kind === "number" || kind === "integer" || kind === "boolean") return { kind };
  // An argument that the schema does not describe, of a plain type.
  if (kind === undefined && typeof value === "string") return { kind: "string" };
  if (kind === undefined && isNumber(value)) return { kind: "number" };
  if (context.depth >= DEPTH || context.left.fields <= 0) return { kind: "json" };
  const inner = { ...context, depth: context.depth + 1 };
  const members = membersOf(schema);
  if (members && Object.keys(members).length > 0) {
    return { kind: "object", fields: membersFields(schema, members, isObject(value) ? value : {}, inner) };
  }
  return kind === "array" && isObject(schema.items) ? listOf(schema.items, value, inner) : { kind: "json" };
}

function listOf(items: JsonObject, value: JsonValue | undefined, context: Context): Kind {
  const choices = context.titles && Array.isArray(items.enum) ? items.enum : [];
  const twice = Array.isArray(value) && new Set(value.map((one) => stringifyJson(one))).size < value.length;
  if (choices.length > 0 && !twice) return { kind: "choices", ...optionsOf(items, choices, context.titles) };
  const item = field("", plainly(items, context.root), undefined, true, context);
  return item.kind === "json" || (Array.isArray(value) && value.length > MOST_ENTRIES) ? { kind: "json" } : { kind: "list", item };
}

/** Whether the field shows exactly this value. */
export function fits(made: Field, value: JsonValue): boolean {
  const isChoice = (one: JsonValue) => made.options?.includes(stringifyJson(one)) ?? false;
  switch (made.kind) {
    case "string":
      return typeof value === "string" && isKept(value);
    case "boolean":
      return typeof value === "boolean";
    case "number":
    case "integer":
      return isNumber(value);
    case "enum":
      return isChoice(value);
    case "choices":
      return Array.isArray(value) && value.every(isChoice);
    default: {
      const draft = fieldDraft(made, value);
      return made.kind === "json" || (typeof draft !== "string" && isKept(draft) && equalJson(read(made, draft, undefined, "", noErrors()), value));
    }
  }
}

/** Whether fields give its texts back unchanged: browsers make every line end `\n`, and only one kind can be restored. */
function isKept(draft: FieldDraft): boolean {
  if (typeof draft !== "string") return Object.values(draft).every(isKept);
  const ends = new Set(draft.match(/\r\n|\r|\n/g));
  return ends.size < 2 && !ends.has("\r");
}

/** The names of choices are beside them, as in the older form of MCP's questions. */
function optionsOf(schema: JsonObject, choices: JsonValue[], titles = false): Pick<Field, "options" | "labels"> {
  const options = choices.map((choice) => stringifyJson(choice));
  const names = schema.enumNames;
  const named = titles && Array.isArray(names) && names.length === options.length && names.every((n) => typeof n === "string");
  return named ? { options, labels: names } : { options };
}

/** The chosen options of a field, each as JSON text. */
export function chosenOf(text: string): string[] {
  try {
    const value = text === "" ? [] : parseJson(text);
    return Array.isArray(value) ? value.map((one) => stringifyJson(one)) : [];
  } catch {
    return [];
  }
}

/** The draft of a value; for one that is not set an empty text, unless it is a required object. */
export function fieldDraft(field: Field, value: JsonValue | undefined): FieldDraft {
  if (field.kind === "object" && (isObject(value) || (value === undefined && field.required))) {
    return Object.fromEntries((field.fields ?? []).map((f) => [f.name, fieldDraft(f, value && own(value, f.name))]));
  }
  if (field.kind === "list" && field.item && (Array.isArray(value) || (value === undefined && field.required))) {
    return (value ?? []).map((one) => fieldDraft(field.item!, one));
  }
  if (value === undefined) return "";
  if (field.kind === "string" && typeof value === "string") return value;
  return stringifyJson(value, field.kind === "json" ? 2 : undefined);
}

/** The initial draft of a field that is added to a list, or set. */
export function freshDraft(field: Field): FieldDraft {
  return fieldDraft({ ...field, required: true }, undefined);
}

/** The draft of a part. */
export function partOf(draft: FieldDraft | undefined, name: string | number): FieldDraft {
  if (Array.isArray(draft)) return draft[Number(name)] ?? "";
  return isGroup(draft) && Object.hasOwn(draft, name) ? draft[name]! : "";
}

export function isGroup(draft: FieldDraft | undefined): draft is { [name: string]: FieldDraft } {
  return typeof draft === "object" && !Array.isArray(draft);
}

export const textOfDraft = (draft: FieldDraft | undefined): string => (typeof draft === "string" ? draft : "");

const own = (object: JsonObject, name: string) => (Object.hasOwn(object, name) ? object[name] : undefined);

export function newEdit(fields: Field[] | undefined, args: JsonObject): EditDraft {
  return {
    tab: fields ? "form" : "json",
    texts: Object.fromEntries((fields ?? []).map((f) => [f.name, fieldDraft(f, own(args, f.name))])),
    raw: stringifyJson(args, 2),
  };
}

export function readEdit(draft: EditDraft, fields: Field[] | undefined, original: JsonObject): EditResult {
  return draft.tab === "form" && fields ? readForm(draft.texts, fields, original) : readRaw(draft.raw);
}

/**
 * The same edit on the other tab; nothing changes if the text of the raw editor cannot be read, or would not be the
 * same in the fields.
 */
export function switchTab(draft: EditDraft, fields: Field[], original: JsonObject): EditDraft {
  const found = readEdit(draft, fields, original);
  if (!found.ok) return draft;
  const fresh = newEdit(fields, found.args);
  if (draft.tab === "form") return { ...fresh, tab: "json" };
  return fitsForm(fields, found.args, original) ? { ...fresh, tab: "form" } : draft;
}

/** Whether the fields give these arguments back, which may have been written as JSON, read as an edit of `original`. */
export function fitsForm(fields: Field[], args: JsonObject, original: JsonObject): boolean {
  const { texts } = newEdit(fields, args);
  return isKept(texts) && equalJson(readMembers(fields, texts, original, "", noErrors()), args);
}

function readRaw(raw: string): EditResult {
  try {
    const args = parseJson(raw);
    if (!isObject(args)) return { ok: false, errors: { [WHOLE]: { key: "edit.error.object" } } };
    const { error } = checked(args);
    return error ? { ok: false, errors: { [WHOLE]: error } } : { ok: true, args };
  } catch (error) {
    return { ok: false, errors: { [WHOLE]: jsonError(error, raw) } };
  }
}

function readForm(texts: Record<string, FieldDraft>, fields: Field[], original: JsonObject): EditResult {
  const errors = noErrors();
  const args = readMembers(fields, texts, original, "", errors);
  return Object.keys(errors).length > 0 ? { ok: false, errors } : { ok: true, args };
}

function readMembers(fields: Field[], drafts: FieldDraft, original: JsonObject, place: string, errors: FieldErrors): JsonObject {
  const values = new Map<string, JsonValue>();
  for (const field of fields) {
    const value = read(field, partOf(drafts, field.name), own(original, field.name), placeIn(place, field.name), errors);
    if (value !== undefined) values.set(field.name, value);
  }
  // The order the model wrote them in, then what is new.
  const names = [...Object.keys(original), ...fields.map((f) => f.name)];
  const entries = [...new Set(names)].flatMap((name): [string, JsonValue][] => {
    const value = values.get(name);
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(entries);
}

/** The value of a field; `undefined` if it is not set, or cannot be read, which is then among the errors. */
function read(field: Field, draft: FieldDraft, before: JsonValue | undefined, place: string, errors: FieldErrors): JsonValue | undefined {
  const found = readParts(field, draft, before, place, errors) ?? readText(field, textOfDraft(draft), before);
  const broken = field.rules && found.value !== undefined ? brokenRule(field.rules, found.value) : undefined;
  const error = found.error ?? broken;
  if (error) errors[place] = error;
  return found.value;
}

interface Found {
  value?: JsonValue | undefined;
  error?: FieldError;
}

function readParts(field: Field, draft: FieldDraft, before: JsonValue | undefined, place: string, errors: FieldErrors): Found | undefined {
  if (field.kind === "object" && isGroup(draft)) {
    return { value: readMembers(field.fields ?? [], draft, isObject(before) ? before : {}, place, errors) };
  }
  if (field.kind !== "list" || !Array.isArray(draft)) return undefined;
  // Entries come and go, so none is identified by its place. An unchanged one keeps its value, wherever it is now.
  const was = new Map(Array.isArray(before) ? before.map((value) => [JSON.stringify(fieldDraft(field.item!, value)), value]) : []);
  const values = draft.map((one, i) => read(field.item!, one, was.get(JSON.stringify(one)), placeIn(place, i), errors));
  return { value: values.filter((value) => value !== undefined) };
}

function readText(field: Field, text: string, before: JsonValue | undefined): Found {
  if (field.emptyIsNull && text.trim() === "") return { value: null };
  if (field.kind === "string") {
    if (field.filled && field.required && text === "") return { error: { key: "edit.error.required" } };
    // An empty text is a value where there was one, or where there must be one; else it is "not set".
    const unset = text === "" && before === undefined && !field.required;
    return { value: unset ? undefined : text === before ? text : formatted(field, text) };
  }
  const trimmed = text.trim();
  if (field.kind === "choices") {
    const chosen = chosenOf(trimmed).map((one) => parseJson(one));
    if (chosen.length > 0) return { value: chosen };
    if (field.required && field.rules?.minItems) return { error: { key: "edit.error.required" } };
    // The draft of an untouched field is empty; that of one whose last choice was taken back is an empty list.
    return { value: field.required || trimmed !== "" ? [] : undefined };
  }
  if (trimmed === "") return field.required ? { error: { key: "edit.error.required" } } : {};
  if (field.kind === "number" || field.kind === "integer") {
    if (!isNumberText(trimmed)) return { error: { key: "edit.error.number" } };
    if (field.kind === "integer" && !isWhole(trimmed)) return { error: { key: "edit.error.integer" } };
    return checked(numberFromText(trimmed));
  }
  try {
    return checked(parseJson(trimmed));
  } catch (error) {
    return { error: jsonError(error, trimmed) };
  }
}

/** The value, and what is wrong with its numbers. */
function checked(value: JsonValue): Found {
  const n = tooExact(value);
  return n === undefined ? { value } : { value, error: { key: "edit.error.digits", n } };
}

/** For a text with a checked format, outer spaces are ignored. A moment is written with its zone. */
function formatted({ format, rules }: Field, text: string): string {
  const words = rules?.format ? text.trim() : text;
  return format === "date-time" && isLocalMoment(words) ? momentOf(words) : words;
}

/** JSON Schema counts 1.0 as a whole number; with an exponent we leave it to the server. */
function isWhole(text: string): boolean {
  return /[eE]/.test(text) || /^-?\d+(\.0+)?$/.test(text);
}

/** The parser's message is English; only its position is used. */
function jsonError(error: unknown, text: string): FieldError {
  const message = error instanceof Error ? error.message : "";
  const twice = /^Duplicate key '(.*)' encountered/s.exec(message);
  if (twice) return { key: "edit.error.duplicate", n: twice[1]! };
  const before = text.slice(0, Number(/position (\d+)$/.exec(message)?.[1] ?? text.length)).split("\n");
  return { key: "edit.error.json", line: before.length, column: [...before.at(-1)!].length + 1 };
}
