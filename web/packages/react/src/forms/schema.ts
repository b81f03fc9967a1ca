/** A JSON Schema's statements about a value, in the simple form that forms and tables need. */
import { isObject, stringifyJson, type JsonObject, type JsonValue } from "@countersign/client";
import { choiceText } from "./values.js";

/** The same schema with local references followed, without "or null", and choices written as an `enum`. */
export function plainly(schema: JsonObject, root: JsonObject, depth = 0): JsonObject {
  if (depth > 4) return schema;
  const { $ref: reference, ...rest } = schema;
  if (typeof reference === "string") {
    const found = reference.startsWith("#/") ? pointed(root, reference) : undefined;
    return isObject(found) ? plainly({ ...found, ...rest }, root, depth + 1) : schema;
  }
  if (Array.isArray(schema.type)) {
    const types = schema.type.filter((type) => type !== "null");
    return types.length === 1 ? plainly({ ...schema, type: types[0]! }, root, depth + 1) : schema;
  }
  if (Array.isArray(schema.allOf) && schema.allOf.length === 1 && isObject(schema.allOf[0])) {
    const { allOf: _all, ...outside } = schema;
    return plainly({ ...schema.allOf[0], ...outside }, root, depth + 1);
  }
  if (schema.const !== undefined && schema.enum === undefined) return { ...schema, enum: [schema.const] };
  const choices = schema.oneOf ?? schema.anyOf;
  if (Array.isArray(choices) && choices.length > 0 && choices.every(isObject)) {
    const others = choices.filter((choice) => choice.type !== "null");
    const { oneOf: _one, anyOf: _any, ...outside } = schema;
    if (others.every((choice) => choice.const !== undefined)) {
      const enumNames = others.map((c) => (typeof c.title === "string" ? c.title : choiceText(stringifyJson(c.const!))));
      return { ...outside, enum: others.map((c) => c.const!), enumNames };
    }
    if (others.length === 1 && choices.length === 2) return plainly({ ...outside, ...others[0]! }, root, depth + 1);
  }
  if (isObject(schema.items)) return { ...schema, items: plainly(schema.items, root, depth + 1) };
  return schema;
}

/** Whether the value may also be null, which `plainly` leaves out. */
export function takesNull(schema: JsonObject, root: JsonObject, depth = 0): boolean {
  if (depth > 4) return false;
  if (typeof schema.$ref === "string") {
    const found = schema.$ref.startsWith("#/") ? pointed(root, schema.$ref) : undefined;
    return isObject(found) && takesNull(found, root, depth + 1);
  }
  if (Array.isArray(schema.type)) return schema.type.includes("null");
  const choices = schema.oneOf ?? schema.anyOf;
  return Array.isArray(choices) && choices.some((choice) => isObject(choice) && choice.type === "null");
}

/** A reference may be written without escapes, or with wrong ones. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function pointed(root: JsonObject, reference: string): JsonValue | undefined {
  let at: JsonValue | undefined = root;
  for (const part of reference.slice(2).split("/")) {
    const name = decoded(part).replaceAll("~1", "/").replaceAll("~0", "~");
    at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return at;
}

/** The title that people see; one of only spaces does not count. */
export function titleOf({ title }: JsonObject): string | undefined {
  return typeof title === "string" && title.trim() !== "" ? title : undefined;
}

/** The unit of its numbers, from `x-unit`, our own extension: JSON Schema has no keyword for it. */
export function unitOf(schema: JsonObject): string | undefined {
  const unit = schema["x-unit"];
  return typeof unit === "string" && unit.trim() !== "" ? unit : undefined;
}

/** The members of an object, if the schema lists them all: with alternatives beside them there may be others. */
export function membersOf(plain: JsonObject): JsonObject | undefined {
  if (!isObject(plain.properties) || (plain.type !== undefined && plain.type !== "object")) return undefined;
  return ["oneOf", "anyOf", "allOf"].some((name) => plain[name] !== undefined) ? undefined : plain.properties;
}

/**
 * The names of its members, the required ones first and in the order of that list, which the author chose. The members'
 * own order is lost, since JSON objects have none and the server sorts them.
 */
export function orderOf(schema: JsonObject): string[] {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required : [];
  const first = required.filter((name): name is string => typeof name === "string" && Object.hasOwn(properties, name));
  return [...new Set([...first, ...Object.keys(properties)])];
}

/** The schema of the value at a path: names of members and places in lists. */
export function schemaAt(schema: JsonObject | undefined, path: readonly (string | number)[]): JsonObject | undefined {
  let at = schema && plainly(schema, schema);
  for (const step of path) {
    const members: JsonObject = isObject(at?.properties) ? at.properties : {};
    const next: JsonValue | undefined =
      typeof at?.type === "string" && at.type === "array" ? at.items : Object.hasOwn(members, step) ? members[step] : undefined;
    at = schema && isObject(next) ? plainly(next, schema) : undefined;
  }
  return at;
}

/** The titles along a path: `Orders › 2 › Price`; `undefined` if no step of it has one. */
export function titlesAt(schema: JsonObject | undefined, path: readonly (string | number)[]): string | undefined {
  const names = path.map((step, i) => {
    const title = titleOf(schemaAt(schema, path.slice(0, i + 1)) ?? {});
    return { title, text: title ?? (typeof step === "number" ? String(step + 1) : step) };
  });
  return names.some(({ title }) => title !== undefined) ? names.map(({ text }) => text).join(" › ") : undefined;
}
