/**
 * `npm run generate`: the types of the wire and of the HTTP interface, from what the server publishes.
 *
 * A test makes them again and compares, so `src/generated/` never differs from `docs/wire.schema.json` and
 * `docs/openapi.json`, which Rust tests compare with the server.
 */
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const docs = new URL("../../../../docs/", import.meta.url);
const folder = new URL("../src/generated/", import.meta.url);

/** @typedef {{ [key: string]: any }} Schema */

/** @returns {Promise<{ [file: string]: string }>} the files below `src/generated/` */
export async function generate() {
  const wire = await read("wire.schema.json");
  const http = await read("openapi.json");
  refine(wire.$defs);
  refineDecision(http.components.schemas);
  return { "wire.ts": await wireTypes(wire), "http.ts": await httpTypes(http, wire.$defs) };
}

/** @param {string} name @returns {Promise<Schema>} */
const read = async (name) => JSON.parse(await readFile(new URL(name, docs), "utf8"));

/**
 * What the descriptions in the schema say and its keywords do not: every event is numbered, except deltas.
 * @param {Schema} defs
 */
function refine(defs) {
  for (const name of new Set(Object.values(defs.SessionEvent.discriminator.mapping).map(nameOf))) {
    for (const event of defs[name].oneOf?.map((/** @type {Schema} */ one) => defs[nameOf(one.$ref)]) ?? [defs[name]]) {
      if (event.properties.seq === undefined) throw new Error(`${name} has no seq: what numbers it?`);
      if (name === "ContentBlockDeltaEvent") delete event.properties.seq;
      else event.required.push("seq");
    }
  }
  refineDecision(defs);
}

/** Which fields belong to which decision. With `?`: may be absent. @type {{ [type: string]: string[] }} */
const DECISIONS = {
  approve: ["always?"],
  reject: ["message?", "always?"],
  edit: ["edited_action"],
  defer: [],
  respond: ["output"],
};

/** The same, of a decision: which fields belong to which type. @param {Schema} defs */
function refineDecision(defs) {
  const { description, properties, required } = defs.Decision;
  const known = ["type", "digest?", "args_digest?", ...Object.values(DECISIONS).flat()].map((field) => field.replace("?", ""));
  const differs = [
    ...Object.keys(properties).filter((field) => !known.includes(field)),
    ...known.filter((field) => properties[field] === undefined),
    ...defs.DecisionType.enum.filter((/** @type {string} */ type) => DECISIONS[type] === undefined),
    ...required.filter((/** @type {string} */ field) => field !== "type"),
  ];
  if (differs.length > 0) throw new Error(`DECISIONS in scripts/generate.mjs does not say what is so of ${differs}`);
  const oneOf = Object.entries(DECISIONS).map(([type, fields]) => {
    const parts = [...fields, "digest?", "args_digest?"].map((field) => [field.replace("?", ""), properties[field.replace("?", "")]]);
    const needed = ["type", ...fields.filter((field) => !field.endsWith("?"))];
    const title = `${type[0]?.toUpperCase()}${type.slice(1)}Decision`;
    return { title, ...closed({ type: { const: type }, ...Object.fromEntries(parts) }, needed) };
  });
  defs.Decision = { description, oneOf };
}

/** @param {any} ref `#/$defs/Name` */
const nameOf = (ref) => String(ref).split("/").at(-1) ?? "";

/** @param {Schema} wire */
async function wireTypes(wire) {
  const { Status, Code, MediaType, SessionEvent } = wire.$defs;
  const types = await typescript("wire.schema.json", `import type { JsonObject, JsonValue } from "../json.js";`, wire);
  return [
    types,
    list("STATUSES", "All that a session can be doing.", "Status", valuesOf(Status)),
    list("ERROR_CODES", "All codes of refusals.", "Code", valuesOf(Code)),
    list("IMAGE_TYPES", "The types of images that are accepted.", "MediaType", valuesOf(MediaType)),
    list("SESSION_EVENTS", "All events of a session.", `SessionEvent["type"]`, Object.keys(SessionEvent.discriminator.mapping)),
  ].join("\n");
}

/** The values of an enumeration, also of one that may get more. @param {Schema} schema @returns {string[]} */
const valuesOf = (schema) => schema.enum ?? schema.anyOf[0].enum;

/** @param {string} name @param {string} comment @param {string} type @param {string[]} values */
const list = (name, comment, type, values) =>
  `/** ${comment} */\nexport const ${name} = ${JSON.stringify(values, null, 2)} as const satisfies readonly ${type}[];\n`;

/** @param {Schema} http @param {Schema} wire */
async function httpTypes(http, wire) {
  const defs = moved(http.components.schemas);
  for (const [name, def] of Object.entries(defs)) {
    // The same as on the wire: one type for both.
    if (JSON.stringify(def) === JSON.stringify(wire[name])) defs[name] = { tsType: `Wire.${name}` };
  }
  const operations = operationsOf(http);
  const properties = Object.fromEntries(operations.map(({ id, schema }) => [id, schema]));
  const root = { ...closed(properties, Object.keys(properties)), title: "Operations", $defs: defs };
  const imports = `import type { JsonObject, JsonValue } from "../json.js";\nimport type * as Wire from "./wire.js";`;
  const types = await typescript("openapi.json", imports, root);
  const rows = operations.map(({ id, method, path }) => `  ${id}: { method: "${method}", path: "${path}" },\n`);
  const table = `export const OPERATIONS = {\n${rows.join("")}} as const satisfies { [K in keyof Operations]: object };\n`;
  return `${types}\n/** How each operation is asked for. */\n${table}`;
}

/** What each operation takes and answers. @param {Schema} http */
function operationsOf(http) {
  return Object.entries(http.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      /** @type {Schema} */
      const parts = {};
      for (const place of ["path", "query"]) {
        const found = operation.parameters.filter((/** @type {Schema} */ p) => p.in === place);
        if (found.length === 0) continue;
        const properties = found.map((/** @type {Schema} */ p) => [p.name, { ...moved(p.schema), description: p.description }]);
        const needed = found.filter((/** @type {Schema} */ p) => p.required).map((/** @type {Schema} */ p) => p.name);
        parts[place] = closed(Object.fromEntries(properties), needed);
      }
      const body = operation.requestBody?.content["application/json"]?.schema;
      if (body) parts.body = moved(body);
      parts.answer = answerOf(operation.responses);
      const needed = Object.keys(parts).filter((part) => part !== "query");
      const schema = { ...closed(parts, needed), description: operation.summary };
      return { id: operation.operationId, method: method.toUpperCase(), path, schema };
    }),
  );
}

/** What a successful answer carries: JSON where it can, else text. @param {Schema} responses */
function answerOf(responses) {
  const [, { content = {} }] = Object.entries(responses).find(([status]) => status < "300") ?? ["", {}];
  const json = content["application/json"]?.schema;
  if (json) return moved(json);
  return Object.keys(content).length === 0 ? { tsType: "undefined" } : { type: "string" };
}

/** @param {Schema} properties @param {string[]} required */
const closed = (properties, required) => ({ type: "object", properties, required, additionalProperties: false });

/** The schema with its references to where the definitions stand here. @param {Schema} schema @returns {Schema} */
const moved = (schema) => JSON.parse(JSON.stringify(schema).replaceAll("#/components/schemas/", "#/$defs/"));

/** @param {string} source @param {string} imports @param {Schema} schema */
async function typescript(source, imports, schema) {
  const banner = `// Generated from docs/${source} by \`npm run generate\`. Not to be edited.\n\n${imports}`;
  const text = await compile(exact(structuredClone(schema)), schema.title, {
    additionalProperties: false,
    bannerComment: banner,
    style: { printWidth: 120, bracketSpacing: true },
    unreachableDefinitions: true,
  });
  // Where a definition was first met is no word about it.
  return text.replace(/\n \*(?:\n \*)? This interface was referenced by .*\n \* via the `definition` ".*"\./g, "").replace(/\/\*\*\n \*\/\n/g, "");
}

/**
 * Arbitrary JSON is what `parseJson` makes, whose numbers have all their digits; `unknown` would lose that. And a
 * reference that has a description of its own would be taken for another type than the one it names.
 * @param {any} schema
 * @returns {any}
 */
function exact(schema) {
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    if (isAnything(property)) schema.properties[name] = { description: property.description, tsType: "JsonValue" };
  }
  if (schema.$ref && Object.keys(schema).length > 1) {
    schema.allOf = [{ $ref: schema.$ref }];
    delete schema.$ref;
  }
  // Any other text, without losing the known ones.
  if (schema.anyOf?.[0]?.enum && schema.anyOf[1]?.type === "string") {
    schema.tsType = `${valuesOf(schema).map((value) => JSON.stringify(value)).join(" | ")} | (string & {})`;
    delete schema.anyOf;
  }
  if (schema.additionalProperties === true && !schema.properties) schema.tsType = "JsonObject";
  for (const value of Object.values(schema)) {
    if (typeof value === "object" && value !== null) exact(value);
  }
  return schema;
}

/** @param {Schema} schema */
const isAnything = (schema) => Object.keys(schema).every((key) => key === "description" || key === "default");

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [name, text] of Object.entries(await generate())) await writeFile(new URL(name, folder), text);
}
