/** The audit log, for people: the meaning of a record, and the content of an export. */
import { isObject, type AuditRecord, type JsonObject, type JsonValue } from "@countersign/client";
import type { MessageKey } from "../i18n/en.js";

/** The meaning of a record, as much as the list shows. */
export interface Told {
  /** In words; or the name of an event that only a newer server has. */
  what: { key: MessageKey } | { event: string };
  by: string | undefined;
  at: string;
  session: string | undefined;
  /** The key of the request. */
  request: string | undefined;
  tools: string[];
  /** Whether it is a bad outcome or a rejection. */
  bad: boolean;
}

const text = (value: JsonValue | undefined): string | undefined => (typeof value === "string" ? value : undefined);
const list = (value: JsonValue | undefined): JsonObject[] => (Array.isArray(value) ? value.filter(isObject) : []);

const PLAIN: Record<string, MessageKey> = {
  answered: "audit.answered",
  resumed: "audit.resumed",
  state_edited: "audit.stateEdited",
  withdrawn: "audit.withdrawn",
  retried: "audit.retried",
  rule_revoked: "audit.ruleRevoked",
  session_deleted: "sessions.deleted",
  outcome_unknown: "audit.outcomeUnknown",
  tool_changed: "audit.toolChanged",
  forked: "audit.forked",
  commented: "audit.commented",
  reassigned: "audit.reassigned",
  reminded: "audit.reminded",
  voted: "audit.voted",
};
const DECISIONS: Record<string, MessageKey> = {
  approve: "audit.approved",
  edit: "audit.edited",
  reject: "audit.rejected",
  respond: "audit.responded",
  defer: "audit.deferred",
};
const KINDS: Record<string, MessageKey> = {
  question: "audit.asked",
  interrupt: "audit.asked",
  input: "audit.asked",
  in_doubt: "audit.askedInDoubt",
};

export function tell({ body: raw }: AuditRecord): Told {
  const given = raw as unknown as JsonValue;
  const body = isObject(given) ? given : {};
  const event = text(body.event) ?? "?";
  const session = text(body.session_id);
  const key = keyOf(event, body);
  const tools = [...list(body.actions).map((action) => text(action.name)), text(body.tool)];
  return {
    what: key ? { key } : { event },
    by: text(body.by),
    at: text(body.at) ?? "",
    session,
    request: text(body.approval_key),
    tools: [...new Set(tools.filter((tool) => tool !== undefined))],
    bad: key === "audit.rejected" || key === "audit.ruleRejected" || key === "audit.programRejected" || key === "audit.failed" || key === "audit.outcomeUnknown" || key === "audit.timedOut",
  };
}

function keyOf(event: string, body: JsonObject): MessageKey | undefined {
  switch (event) {
    case "requested":
      return KINDS[text(body.kind) ?? ""] ?? "audit.requested";
    case "decided": {
      const kinds = new Set(list(body.decisions).map((decision) => text(decision.type) ?? ""));
      const [only] = kinds;
      return kinds.size === 1 ? DECISIONS[only ?? ""] : "audit.decided";
    }
    case "timed_out":
      return Array.isArray(body.escalated_to) ? "audit.escalated" : "audit.timedOut";
    case "decided_unasked":
      if (isObject(body.decided_by) && body.decided_by.type === "program") return body.verdict === "allow" ? "audit.programApproved" : "audit.programRejected";
      return body.verdict === "allow" ? "audit.ruleApproved" : "audit.ruleRejected";
    case "finished":
      return body.status === "error" ? "audit.failed" : body.status === "rejected" ? "audit.notRun" : "audit.finished";
    default:
      return PLAIN[event];
  }
}

/** How many records a page of an export has at most. */
const EXPORT_PAGE = 1_000;

/**
 * All records from the first on, one per line, as pieces of a file. Each is the text that the server has stored:
 * nothing is parsed, so no digit changes.
 */
export async function* exported(
  read: (cursor: number, limit: number) => Promise<string>,
): AsyncGenerator<{ lines: string; records: number }> {
  for (let cursor = 0; ; ) {
    const lines = await read(cursor, EXPORT_PAGE);
    const ends = lines.split("\n").filter((line) => line !== "");
    // A page of long records is short without being the last one.
    if (ends.length === 0) return;
    yield { lines, records: ends.length };
    const last = /^\{"n":(\d+),/.exec(ends.at(-1)!)?.[1];
    if (last === undefined) throw new Error("a line of the audit log does not begin with its number");
    cursor = Number(last);
  }
}
