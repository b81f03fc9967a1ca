/** How argument values are written for a reader. */
import { hasHidden } from "./visible.js";
import { isObject, parseJson, stringifyJson, type JsonValue } from "@countersign/client";

/**
 * A string is shown as plain text, except where that could be taken for something else: an empty string,
 * outer spaces, or text that reads like a number, a boolean or other JSON. Then it gets its quotes.
 */
export function valueText(value: JsonValue): string {
  if (typeof value !== "string") return stringifyJson(value, 2);
  return looksLikeJson(value) ? JSON.stringify(value) : value;
}

function looksLikeJson(text: string): boolean {
  if (text === "" || text !== text.trim()) return true;
  if (!/^[-\d"[{tfn]/.test(text)) return false;
  try {
    parseJson(text);
    return true;
  } catch {
    return false;
  }
}

/** Needs more than one line: nested values, and long or multi-line text. */
export function isLong(value: JsonValue): boolean {
  if (typeof value === "string") return value.length > 80 || value.includes("\n");
  return (isObject(value) || Array.isArray(value)) && stringifyJson(value).length > 2;
}

/** Arguments as streamed: pretty where they are complete JSON, else as they came. */
export function prettyJson(text: string): string {
  try {
    return stringifyJson(parseJson(text), 2);
  } catch {
    return text;
  }
}

/** Is there a hidden character anywhere in it, in names or in values? */
export function containsHidden(value: JsonValue): boolean {
  if (typeof value === "string") return hasHidden(value);
  if (Array.isArray(value)) return value.some(containsHidden);
  if (isObject(value)) return Object.entries(value).some(([key, v]) => hasHidden(key) || containsHidden(v));
  return false;
}
