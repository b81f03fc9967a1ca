/**
 * The simple rules for a value in a form, from its own schema: limits, lengths and formats.
 *
 * Patterns are left to the server, which matches them in linear time: somebody else has written them, and a malicious
 * one could keep a browser busy forever.
 */
import { equalJson, isNumber, type JsonObject, type JsonValue } from "@countersign/client";

export interface Rules {
  minimum?: JsonValue;
  maximum?: JsonValue;
  exclusiveMinimum?: JsonValue;
  exclusiveMaximum?: JsonValue;
  multipleOf?: JsonValue;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  format?: Format;
}

const FORMATS = ["email", "uri", "date", "date-time"] as const;
export type Format = (typeof FORMATS)[number];

/** A rule in words: the text of its error, and the limit that it names. */
export interface RuleError {
  key:
    | "edit.error.min"
    | "edit.error.max"
    | "edit.error.above"
    | "edit.error.below"
    | "edit.error.multiple"
    | "edit.error.minLength"
    | "edit.error.maxLength"
    | "edit.error.minItems"
    | "edit.error.maxItems"
    | "edit.error.email"
    | "edit.error.uri"
    | "edit.error.date"
    | "edit.error.dateTime";
  n?: string;
}

/** `formats`: whether to check its format, which is otherwise only a hint. */
export function rulesOf(schema: JsonObject, formats: boolean): Rules {
  const rules: Rules = {};
  for (const name of ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] as const) {
    const limit = schema[name];
    if (isNumber(limit)) rules[name] = limit;
  }
  for (const name of ["minLength", "maxLength", "minItems", "maxItems"] as const) {
    const limit = schema[name];
    if (isNumber(limit)) rules[name] = Number(limit);
  }
  if (isNumber(schema.multipleOf)) rules.multipleOf = schema.multipleOf;
  const format = formats ? formatOf(schema) : undefined;
  return format ? { ...rules, format } : rules;
}

export function formatOf({ format }: JsonObject): Format | undefined {
  return FORMATS.find((one) => one === format);
}

/** The first rule that the value breaks. */
export function brokenRule(rules: Rules, value: JsonValue): RuleError | undefined {
  return [...limits(rules)].find(([, fits]) => !fits(value))?.[0] ?? formatError(rules.format, value);
}

/** The limits in the words of their errors, for people to read in advance. */
export function limitsOf(rules: Rules): RuleError[] {
  return [...limits(rules)].map(([error]) => error);
}

/** A whole limit without its zeros. */
const plain = (limit: JsonValue) => String(limit).replace(/\.0+$/, "");

function* limits(rules: Rules): Generator<[RuleError, (value: JsonValue) => boolean]> {
  // Compared as doubles, which never puts a number on the wrong side of a limit in its range.
  const number = (limit: JsonValue, fits: (value: number, limit: number) => boolean) => (value: JsonValue) =>
    !isNumber(value) || fits(Number(value), Number(limit));
  const { minimum, maximum, exclusiveMinimum: above, exclusiveMaximum: below } = rules;
  if (minimum !== undefined) yield [{ key: "edit.error.min", n: plain(minimum) }, number(minimum, (v, n) => v >= n)];
  if (maximum !== undefined) yield [{ key: "edit.error.max", n: plain(maximum) }, number(maximum, (v, n) => v <= n)];
  if (above !== undefined) {
    const fits = number(above, (v, n) => v >= n);
    yield [{ key: "edit.error.above", n: plain(above) }, (value) => fits(value) && !equalJson(value, above)];
  }
  if (below !== undefined) {
    const fits = number(below, (v, n) => v <= n);
    yield [{ key: "edit.error.below", n: plain(below) }, (value) => fits(value) && !equalJson(value, below)];
  }
  const { multipleOf: step } = rules;
  if (step !== undefined) yield [{ key: "edit.error.multiple", n: plain(step) }, (v) => isMultiple(v, step)];
  // JSON Schema counts code points.
  const length = (value: JsonValue) => (typeof value === "string" ? [...value].length : undefined);
  const items = (value: JsonValue) => (Array.isArray(value) ? value.length : undefined);
  const { minLength, maxLength, minItems, maxItems } = rules;
  if (minLength) yield [{ key: "edit.error.minLength", n: String(minLength) }, (v) => (length(v) ?? minLength) >= minLength];
  if (maxLength !== undefined) yield [{ key: "edit.error.maxLength", n: String(maxLength) }, (v) => (length(v) ?? 0) <= maxLength];
  if (minItems) yield [{ key: "edit.error.minItems", n: String(minItems) }, (v) => (items(v) ?? minItems) >= minItems];
  if (maxItems !== undefined) yield [{ key: "edit.error.maxItems", n: String(maxItems) }, (v) => (items(v) ?? 0) <= maxItems];
}

/**
 * In whole numbers, since 0.3 is not a multiple of 0.1 as a double. Numbers with an exponent are left to the server.
 */
function isMultiple(value: JsonValue, step: JsonValue): boolean {
  if (!isNumber(value)) return true;
  const texts = [String(value), String(step)];
  if (!texts.every((text) => /^-?\d+(\.\d+)?$/.test(text))) return true;
  const digits = Math.max(...texts.map((text) => text.split(".")[1]?.length ?? 0));
  const [whole, by] = texts.map((text) => {
    const [before = "", after = ""] = text.split(".");
    return BigInt(before + after.padEnd(digits, "0"));
  });
  return by === 0n || whole! % by! === 0n;
}

function formatError(format: Format | undefined, value: JsonValue): RuleError | undefined {
  if (typeof value !== "string" || format === undefined || fitsFormat(format, value)) return undefined;
  return { key: format === "date-time" ? "edit.error.dateTime" : `edit.error.${format}` };
}

export function fitsFormat(format: Format, text: string): boolean {
  switch (format) {
    case "email":
      return /^[^\s@]+@[^\s@]+$/.test(text);
    case "uri":
      return /^[a-z][a-z0-9+.-]*:\S+$/i.test(text) && URL.canParse(text);
    case "date":
      return isDay(text);
    case "date-time":
      return /^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?(Z|[+-]\d\d:\d\d)$/i.test(text) && isDay(text.slice(0, 10));
  }
}

/** Whether the day exists in the calendar. */
function isDay(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const day = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}

/** The format of the browser's own field for a moment: the local time, without a zone. */
const LOCAL = /^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,3})?)?$/;

/** One that the browser's field can show: it is empty for 30 February. */
export function isLocalMoment(text: string): boolean {
  return LOCAL.test(text) && isDay(text.slice(0, 10));
}

/** A moment of the browser's field as RFC 3339; any other text as it is. */
export function momentOf(text: string): string {
  const at = isLocalMoment(text) ? new Date(text) : undefined;
  return at && !Number.isNaN(at.getTime()) ? at.toISOString().replace(".000Z", "Z") : text;
}
