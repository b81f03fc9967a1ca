/**
 * The arguments of a call as a table: in the order of their schema, under the names that people know.
 *
 * The table is a reading aid. The server's text of the arguments is authoritative; it is always beside the table, and
 * wherever the table leaves something out it says so.
 */
import { equalJson, isObject, stringifyJson, type JsonObject, type JsonValue } from "@countersign/client";
import { formatOf, type Format } from "./rules.js";
import { orderOf, plainly, titleOf, unitOf } from "./schema.js";

export interface ArgRow {
  /** The name in the JSON; for an entry of a list its place, from 1. */
  name: string;
  entry?: boolean;
  title?: string;
  unit?: string;
  format?: Format;
  /** The title of this choice. */
  label?: string;
  value: JsonValue;
  /** The contents of an object or a list that is not empty. */
  rows?: ArgRow[];
  /** How many of these rows are left out. */
  more?: number;
}

export interface Unset {
  name: string;
  title?: string;
  /** The default value from the schema. */
  fallback?: JsonValue;
}

export interface ArgTable {
  rows: ArgRow[];
  /** How many are left out. */
  more: number;
  /** The arguments in the schema that the call does not have. */
  unset: Unset[];
}

/** Deeper values are written as JSON. */
const DEPTH = 6;

/** `most`: rows of the whole table. */
export function argTable(args: JsonObject, schema: JsonObject | undefined, most = Number.POSITIVE_INFINITY): ArgTable {
  const root = schema ?? {};
  const left = { rows: most };
  const { rows, more } = members(args, plainly(root, root), { root, left, depth: 0 });
  const properties = isObject(root.properties) ? root.properties : {};
  const unset = orderOf(root).flatMap((name): Unset[] => {
    if (Object.hasOwn(args, name)) return [];
    const property = isObject(properties[name]) ? plainly(properties[name], root) : {};
    const title = titleOf(property);
    return [{ name, ...(title === undefined ? {} : { title }), ...(property.default === undefined ? {} : { fallback: property.default }) }];
  });
  return { rows, more, unset };
}

interface Context {
  root: JsonObject;
  left: { rows: number };
  depth: number;
}

interface Rows {
  rows: ArgRow[];
  more: number;
}

function members(value: JsonObject, schema: JsonObject, context: Context): Rows {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const known = orderOf(schema).filter((name) => Object.hasOwn(value, name));
  const extra = Object.keys(value).filter((name) => !Object.hasOwn(properties, name));
  const parts = [...known, ...extra].map((name) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return { name, value: value[name]!, schema: property };
  });
  return rowsOf(parts, context);
}

function rowsOf(parts: { name: string; entry?: boolean; value: JsonValue; schema: JsonValue | undefined }[], context: Context): Rows {
  const rows: ArgRow[] = [];
  for (const { schema, ...part } of parts) {
    if (context.left.rows <= 0) break;
    context.left.rows -= 1;
    rows.push({ ...part, ...readRow(part.value, isObject(schema) ? plainly(schema, context.root) : {}, context) });
  }
  return { rows, more: parts.length - rows.length };
}

function readRow(value: JsonValue, schema: JsonObject, context: Context): Omit<ArgRow, "name" | "value"> {
  const title = titleOf(schema);
  const unit = unitOf(schema);
  const format = typeof value === "string" ? formatOf(schema) : undefined;
  const label = labelOf(value, schema);
  return {
    ...(title === undefined ? {} : { title }),
    ...(unit === undefined ? {} : { unit }),
    ...(format === undefined ? {} : { format }),
    ...(label === undefined ? {} : { label }),
    ...inner(value, schema, context),
  };
}

function inner(value: JsonValue, schema: JsonObject, context: Context): Partial<Pick<ArgRow, "rows" | "more">> {
  if (context.depth >= DEPTH) return {};
  const deeper = { ...context, depth: context.depth + 1 };
  if (Array.isArray(value) && value.length > 0) {
    return some(rowsOf(value.map((one, i) => ({ name: String(i + 1), entry: true, value: one, schema: schema.items })), deeper));
  }
  return isObject(value) && Object.keys(value).length > 0 ? some(members(value, schema, deeper)) : {};
}

const some = ({ rows, more }: Rows) => (more > 0 ? { rows, more } : { rows });

/** The title of a choice, if it differs from its value. */
function labelOf(value: JsonValue, schema: JsonObject): string | undefined {
  const { enum: choices, enumNames: names } = schema;
  const at = Array.isArray(choices) ? choices.findIndex((one) => equalJson(one, value)) : -1;
  const name = Array.isArray(names) ? names[at] : undefined;
  return typeof name === "string" && name !== value && name !== stringifyJson(value) ? name : undefined;
}

/** The digits before the point in threes, from the right, if there are too many to count at a glance. */
export function digitGroups(text: string): string[] {
  const [, sign = "", whole = "", rest = ""] = /^(-?)(\d{5,})(\.\d+)?$/.exec(text) ?? [];
  if (whole === "") return [text];
  const groups = whole.match(/\d{1,3}(?=(?:\d{3})*$)/g) ?? [whole];
  return groups.map((group, i) => (i === 0 ? sign : "") + group + (i === groups.length - 1 ? rest : ""));
}
