/** How argument values are written for a reader. */
import { parseJson, stringifyJson, type JsonValue } from "@countersign/client";

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

/** Arguments as streamed: pretty-printed if they are complete JSON, otherwise as received. */
export function prettyJson(text: string): string {
  try {
    return stringifyJson(parseJson(text), 2);
  } catch {
    return text;
  }
}

/** A choice as it is shown: a text without its quotes. */
export function choiceText(option: string): string {
  const value = parseJson(option);
  return typeof value === "string" ? value : stringifyJson(value);
}
