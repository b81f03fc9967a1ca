/**
 * The request of an MCP server in the middle of a call: a form to fill in, or an address to open.
 *
 * It comes as a question like those of graphs, whose answer has the person's choice (`action`), and for a form the
 * input (`content`).
 */
import { isObject, type ApprovalView, type JsonObject, type JsonValue } from "@countersign/client";
import { answerForm, json, type FieldsForm } from "./answer.js";
import type { FieldProblem } from "./edits.js";

export interface Elicitation {
  /** The server, by its name in the configuration. */
  from: string;
  /** Its words. */
  message: string;
  /** For a form: the schema of the input. */
  schema?: JsonObject;
  /** The address to open. */
  address?: Address;
}

export interface Address {
  url: string;
  host: string;
  /** The target of a link; absent if it is not the address of a web page. */
  href?: string;
}

/** `undefined` for a question of another kind. */
export function elicitationOf({ kind, interrupt }: ApprovalView): Elicitation | undefined {
  const payload = interrupt?.payload;
  if (kind !== "input" || !isObject(payload)) return undefined;
  const { from, message, mode, url, host } = payload;
  const accept = acceptOf(interrupt?.schema);
  if (typeof from !== "string" || typeof message !== "string" || !accept) return undefined;
  if (mode === "url" && typeof url === "string") {
    return { from, message, address: addressOf(url, typeof host === "string" ? host : "") };
  }
  return mode === "form" && isObject(accept.content) ? { from, message, schema: accept.content } : undefined;
}

/** The members of an answer that accepts. */
function acceptOf(schema: JsonValue | undefined): JsonObject | undefined {
  const branches = isObject(schema) && Array.isArray(schema.oneOf) ? schema.oneOf : [];
  for (const branch of branches) {
    const members = isObject(branch) && isObject(branch.properties) ? branch.properties : {};
    if (isObject(members.action) && members.action.const === "accept") return members;
  }
  return undefined;
}

function addressOf(url: string, host: string): Address {
  const read = URL.canParse(url) ? new URL(url) : undefined;
  if (!read || (read.protocol !== "https:" && read.protocol !== "http:")) return { url, host };
  // As the browser reads it, whatever precedes an @ or is written in other letters.
  return { url, host: read.host, href: read.href };
}

/** The form; one without fields asks only for a yes. */
export function elicitationForm({ schema }: Elicitation): FieldsForm {
  const none = !schema || (isObject(schema.properties) && Object.keys(schema.properties).length === 0);
  if (none) return { kind: "object", fields: [], begin: {} };
  const form = answerForm(schema, true);
  return form.kind === "object" || form.kind === "field" ? form : json;
}

/** The problems that the server found with the whole answer, as if they were about the form alone. */
export function formProblems(problems: FieldProblem[]): FieldProblem[] {
  return problems.map((p) => ({ ...p, pointer: p.pointer.replace(/^\/content(?=\/|$)/, "") }));
}

export interface ElicitationResult {
  action: "accept" | "decline" | "cancel";
  /** The input, each value under the name that people know. */
  content?: JsonObject;
}

/** The answer. */
export function elicitationResultOf({ schema }: Elicitation, resume: JsonValue | undefined): ElicitationResult | undefined {
  if (!isObject(resume)) return undefined;
  const { action, content } = resume;
  if (action !== "accept" && action !== "decline" && action !== "cancel") return undefined;
  if (!isObject(content)) return { action };
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const titleOf = (name: string) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
    return isObject(property) && typeof property.title === "string" ? property.title : name;
  };
  const names = Object.keys(content);
  const titles = names.map(titleOf);
  // Two fields of one title keep their names.
  const named = new Set(titles).size === titles.length ? titles : names;
  return { action, content: Object.fromEntries(names.map((name, i) => [named[i]!, content[name]!])) };
}
