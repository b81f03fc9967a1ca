/**
 * JSON that keeps every number as it was written.
 *
 * What a person approves must be what runs, so `9007199254740993` and `1.10` may not turn into
 * `9007199254740992` and `1.1` on their way through the browser. Numbers that JavaScript would print
 * exactly as they were written stay plain numbers; every other number becomes a `LosslessNumber`.
 */
import { parse, stringify } from "lossless-json";

/**
 * The mark by which these numbers are recognised, which nothing in JSON can have: also those of another copy of this
 * package.
 */
const BRAND = Symbol.for("@countersign/client.LosslessNumber");

/**
 * A number that JavaScript cannot carry exactly as it was written. Serialise it with `stringifyJson`, not with
 * `JSON.stringify`.
 */
export class LosslessNumber {
  static {
    Object.defineProperty(this.prototype, BRAND, { value: true });
  }

  /** `text`: as it is written in JSON. */
  constructor(readonly text: string) {
    if (!isNumberText(text)) throw new SyntaxError(`${JSON.stringify(text)} is no JSON number.`);
  }

  /** With every digit. */
  toString(): string {
    return this.text;
  }

  /** The nearest JavaScript number, for comparing and calculating. */
  valueOf(): number {
    return Number(this.text);
  }
}

export function isLosslessNumber(value: unknown): value is LosslessNumber {
  return typeof value === "object" && value !== null && BRAND in value;
}

const WRITTEN = [{ test: isLosslessNumber, stringify: String }];

export type JsonValue =
  | null
  | boolean
  | string
  | number
  | LosslessNumber
  | JsonValue[]
  | { [key: string]: JsonValue };

export type JsonObject = { [key: string]: JsonValue };

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

/** Is this text a JSON number? */
export function isNumberText(text: string): boolean {
  return NUMBER.test(text);
}

/** A number with exactly this text: a plain number where that is exact, else a `LosslessNumber`. */
export function numberFromText(text: string): number | LosslessNumber {
  const plain = Number(text);
  return String(plain) === text ? plain : new LosslessNumber(text);
}

/** Parse JSON without changing any number. Throws `SyntaxError` on bad JSON and on duplicate keys, as the server refuses them. */
export function parseJson(text: string): JsonValue {
  const value = readJson(text);
  refuseDuplicates(text);
  return value;
}

/**
 * The same for JSON from the server. It writes no key twice, so duplicates are not searched for, which would take as
 * long as the rest: a duplicate with equal values is accepted.
 */
export function readJson(text: string): JsonValue {
  return parse(text, null, numberFromText) as JsonValue;
}

/**
 * The parser accepts a duplicate key if its values are equal. The message is worded like the parser's own, since forms
 * read it. The text is JSON, so a string before a colon is a key.
 */
function refuseDuplicates(text: string): void {
  const marks = /["{}]/g;
  const colon = /\s*:/y;
  const objects: Set<string>[] = [];
  for (let mark; (mark = marks.exec(text)); ) {
    if (mark[0] === "{") objects.push(new Set());
    else if (mark[0] === "}") objects.pop();
    else {
      const end = endOfString(text, mark.index);
      marks.lastIndex = colon.lastIndex = end;
      if (!colon.test(text)) continue;
      const key = JSON.parse(text.slice(mark.index, end)) as string;
      const keys = objects.at(-1)!;
      if (keys.size === keys.add(key).size) throw new SyntaxError(`Duplicate key '${key}' encountered at position ${mark.index}`);
    }
  }
}

/** The position after its closing quote, which has an even number of backslashes before it. */
function endOfString(text: string, start: number): number {
  for (let quote = text.indexOf('"', start + 1); ; quote = text.indexOf('"', quote + 1)) {
    let slash = quote;
    while (text[slash - 1] === "\\") slash--;
    if ((quote - slash) % 2 === 0) return quote + 1;
  }
}

/** Write JSON; every number gets its original text back. */
export function stringifyJson(value: unknown, indent?: number): string {
  return stringify(value, null, indent, WRITTEN) ?? "null";
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isLosslessNumber(value);
}

export function isNumber(value: JsonValue | undefined): value is number | LosslessNumber {
  return typeof value === "number" || isLosslessNumber(value);
}

/** Equal as JSON, with numbers compared by their text and object keys in any order. */
export function equalJson(a: JsonValue | undefined, b: JsonValue | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  if (isNumber(a) || isNumber(b)) return isNumber(a) && isNumber(b) && String(a) === String(b);
  if (Array.isArray(a) || Array.isArray(b)) {
    if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false;
    return a.every((item, i) => equalJson(item, b[i]));
  }
  if (isObject(a) && isObject(b)) {
    const keys = Object.keys(a);
    if (keys.length !== Object.keys(b).length) return false;
    return keys.every((key) => Object.hasOwn(b, key) && equalJson(a[key], b[key]));
  }
  return a === b;
}
