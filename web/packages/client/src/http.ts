/** The few HTTP calls that a client needs beside the WebSocket: lists. */
import { CountersignError } from "./errors.js";
import { parseJson, type JsonObject } from "./json.js";
import { approvalFromBlock } from "./fold.js";
import type { HistoryPage } from "./history.js";
import type { ApprovalRequestBlock, RunStatus } from "./protocol.js";
import type { ApprovalView } from "./view.js";

export interface SessionSummary {
  session_id: string;
  agent?: string;
  status?: RunStatus;
  title?: string;
  created_at?: string;
  updated_at?: string;
  pending?: string[];
}

export interface AgentSummary {
  name: string;
  description?: string;
  tools?: (string | { name: string; description?: string })[];
}

/** Which page of a history. Without a cursor: the first of its direction, so `backward` begins with the newest. */
export interface HistoryQuery {
  direction?: "forward" | "backward";
  /** `next_cursor` of the page before. */
  cursor?: string;
  limit?: number;
}

export interface HttpOptions {
  /** The origin and path prefix of the server; empty for the page's own. */
  baseUrl?: string;
  token?: () => string | undefined;
  fetch?: typeof fetch;
}

export class CountersignHttp {
  readonly #options: HttpOptions;
  /** Server clock minus ours, in ms, from the `Date` header; good to about a second. */
  clockOffsetMs = 0;

  constructor(options: HttpOptions = {}) {
    this.#options = options;
  }

  async agents(): Promise<AgentSummary[]> {
    return (await this.#get<{ agents?: AgentSummary[] }>("/v1/agents")).agents ?? [];
  }

  async sessions(cursor?: string): Promise<{ sessions: SessionSummary[]; next: string | undefined }> {
    const query = cursor ? `?cursor=${encodeURIComponent(cursor)}` : "";
    const body = await this.#get<{ sessions?: SessionSummary[]; next_cursor?: string | null }>(
      `/v1/sessions${query}`,
    );
    return { sessions: body.sessions ?? [], next: body.next_cursor ?? undefined };
  }

  /** Everything that waits, across sessions. */
  async waiting(): Promise<ApprovalView[]> {
    type Row = ApprovalRequestBlock & { session_id: string };
    const body = await this.#get<{ approvals?: Row[] }>("/v1/approvals?status=waiting");
    return (body.approvals ?? []).map((row) => ({ ...approvalFromBlock(row, row.session_id), complete: true }));
  }

  async history(sessionId: string, query: HistoryQuery = {}): Promise<HistoryPage> {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
    return this.#get(`/v1/sessions/${encodeURIComponent(sessionId)}/history${search && `?${search}`}`);
  }

  async #get<T>(path: string): Promise<T> {
    const { baseUrl = "", token, fetch: fetchFn = globalThis.fetch } = this.#options;
    const bearer = token?.();
    const before = Date.now();
    const response = await fetchFn(baseUrl + path, {
      headers: { accept: "application/json", ...(bearer ? { authorization: `Bearer ${bearer}` } : {}) },
      cache: "no-store",
    });
    this.#readClock(response.headers.get("date"), before);
    const text = await response.text();
    if (response.ok) return parseJson(text) as T;
    throw problem(response.status, text);
  }

  #readClock(date: string | null, before: number): void {
    const server = date ? Date.parse(date) : Number.NaN;
    if (Number.isNaN(server)) return;
    // The header has whole seconds; a difference below two is no difference.
    const offset = server + 500 - (before + Date.now()) / 2;
    this.clockOffsetMs = Math.abs(offset) < 2000 ? 0 : offset;
  }
}

/** RFC 9457: `{type, title, status, code, detail}`. */
function problem(status: number, text: string): CountersignError {
  let body: JsonObject = {};
  try {
    body = parseJson(text) as JsonObject;
  } catch {
    // A proxy's error page: the status has to do.
  }
  const code = typeof body.code === "string" ? body.code : status === 401 ? "unauthenticated" : `http_${status}`;
  const message = [body.detail, body.title].find((s) => typeof s === "string") ?? `HTTP ${status}`;
  return new CountersignError(code, String(message), body);
}
