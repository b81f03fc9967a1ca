/** The changes of an edit, value by value. */
import { equalJson, isObject, type JsonValue } from "@countersign/client";

export interface Change {
  /** Its place: `price`, `items[2].name`; empty for the whole value. */
  path: string;
  /** The same in steps: names of members, places in lists. */
  at: (string | number)[];
  /** Absent: it was not there before. */
  before?: JsonValue;
  /** Absent: it was removed. */
  after?: JsonValue;
}

export function diff(before: JsonValue | undefined, after: JsonValue | undefined, path = "", at: Change["at"] = []): Change[] {
  if (equalJson(before, after)) return [];
  if (isObject(before) && isObject(after)) {
    const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
    return keys.flatMap((key) => diff(own(before, key), own(after, key), join(path, key), [...at, key]));
  }
  if (Array.isArray(before) && Array.isArray(after)) {
    const length = Math.max(before.length, after.length);
    return Array.from({ length }, (_, i) => diff(before[i], after[i], `${path}[${i}]`, [...at, i])).flat();
  }
  const change: Change = { path, at };
  if (before !== undefined) change.before = before;
  if (after !== undefined) change.after = after;
  return [change];
}

const own = (object: Record<string, JsonValue>, key: string) =>
  Object.hasOwn(object, key) ? object[key] : undefined;

function join(path: string, key: string): string {
  const name = /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(key) ? key : JSON.stringify(key);
  return path === "" ? name : `${path}.${name}`;
}
