/** The HTTP calls that a client needs beside the WebSocket: lists, and what is done to sessions that stand. */
import { CountersignError } from "./errors.js";
import { parseJson, stringifyJson, type JsonObject, type JsonValue } from "./json.js";
import { approvalFromBlock } from "./fold.js";
import type { SessionGraph } from "./graph.js";
import type { HistoryPage } from "./history.js";
import type { Answers, ApprovalRequestBlock, Decision, Resolution, RunStatus } from "./protocol.js";
import type { ApprovalView, UpdateView } from "./view.js";

export interface SessionSummary {
  session_id: string;
  agent?: string;
  /** Whose it is. */
  subject?: string;
  status?: RunStatus;
  title?: string;
  created_at?: string;
  updated_at?: string;
  pending?: string[];
  /** Whose past it has, if it is a fork. Not in lists. */
  forked_from?: ForkedFrom;
  /** Why its turn does not go on by itself, if it does not. Not in lists. */
  held?: "fork" | "crashes";
}

/** Whose past a fork has, and how far. */
export interface ForkedFrom {
  session_id: string;
  checkpoint: number;
}

/** A place at which a session stood whole: it can be looked at, and forked from. */
export interface Checkpoint {
  /** Its position in the session's journal, which names it. */
  checkpoint: number;
  /** RFC 3339. */
  at: string;
  /** What brought the session there: `message`, `answer`, `decision`, `start`, `result`, `end` and others. */
  after: string;
  status: RunStatus;
  /** The node of the graph at which it stood. */
  node: string;
  /** The approval keys that waited there. */
  pending: string[];
}

/** How a fork is made. */
export interface ForkRequest {
  /** Up to where it has the past; the newest checkpoint if absent. */
  checkpoint?: number;
  /** The new session's id; made if absent. */
  session_id?: string;
  /** What is changed there: what the user says, or calls that have not begun. */
  edit?: { message?: string; calls?: { tool_use_id: string; name?: string; args: JsonObject }[] };
  /** It goes on by itself; else it stands until somebody decides what waits or says something. */
  run?: boolean;
  /** Makes it safe to send again. */
  request_id?: string;
}

export interface AgentSummary {
  name: string;
  description?: string;
  /** Whether its model takes images: a message with one is refused if not. */
  takes_images?: boolean;
  /** Most model calls in one turn. */
  max_turns?: number;
  tools?: (string | { name: string; description?: string })[];
}

/** A session's state, as far as programs use it here. */
export interface SessionState extends SessionSummary {
  /** The node where it stands. */
  node: string;
  /** The state of the graph that it runs; absent for agents' sessions. */
  values?: JsonValue;
}

/** A run of a graph of the program that embeds the server. */
export interface RunRequest {
  /** The session; made if absent. */
  session_id?: string;
  /** The state to begin with. */
  state: JsonValue;
  /** Makes it safe to send again. */
  request_id?: string;
}

/** How a failed turn continues. */
export interface RetryOptions {
  /** How many more model calls it may make: needed after `max_turns`, and at most the agent's `max_turns`. */
  moreCalls?: number;
  /** Makes it safe to send again. */
  requestId?: string;
}

/** A decision that decides later calls too. */
export interface StandingRule {
  id: string;
  /** Its session; calls with its arguments, or all calls of the tool, in all sessions of the user. */
  scope: "session" | "arguments" | "tool";
  /** It approves; else it rejects. */
  approve: boolean;
  agent: string;
  tool: string;
  /** For these arguments only. */
  args?: JsonObject;
  /** What the model is told, when it rejects. */
  message?: string;
  /** The role in whose place it stands; absent: the session's own subject. */
  role?: string;
  /** Whose sessions it is for. */
  subject?: string;
  /** The session it was made in. */
  session_id: string;
  by?: string;
  /** RFC 3339. */
  made_at: string;
  /** When it ends; absent: never by itself. */
  until?: string;
  /** Not revoked, and its time is not over. */
  standing: boolean;
  /** Whether it counts now; a suspended one does not, since whoever made it may not decide any more. */
  state: "active" | "suspended" | "ended";
  /** Why it is suspended. */
  suspended?: string;
  /** When it was revoked, or another took its place. */
  revoked_at?: string;
  revoked_by?: string;
}

export interface RuleQuery {
  /** Not revoked (true) or revoked (false); absent: both. */
  standing?: boolean;
  /** Made in this session. */
  session_id?: string;
  cursor?: string;
  limit?: number;
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

  async session(sessionId: string): Promise<SessionSummary> {
    return this.#get(`/v1/sessions/${encodeURIComponent(sessionId)}`);
  }

  /** What waits across sessions, a page at a time, the soonest deadline first. */
  async waiting(
    query: { cursor?: string; limit?: number } = {},
  ): Promise<{ approvals: ApprovalView[]; next: string | undefined }> {
    const body = await this.#get<{ approvals?: ApprovalRow[]; next_cursor?: string | null }>(
      `/v1/approvals${search({ status: "waiting", ...query })}`,
    );
    return { approvals: (body.approvals ?? []).map(approvalOf), next: body.next_cursor ?? undefined };
  }

  /** One request, with what was said about it and when. */
  async approval(approvalKey: string): Promise<ApprovalView> {
    return approvalOf(await this.#get(`/v1/approvals/${encodeURIComponent(approvalKey)}`));
  }

  /** The same as the client's `comment`, without a connection. The same `requestId` again is done once. */
  async comment(approvalKey: string, text: string, requestId?: string): Promise<ApprovalView> {
    return this.#note(approvalKey, "comments", { text, ...(requestId ? { request_id: requestId } : {}) });
  }

  /** The same as the client's `reassign`, without a connection. */
  async reassign(
    approvalKey: string,
    to: { role?: string; subject?: string; text?: string },
    requestId?: string,
  ): Promise<ApprovalView> {
    return this.#note(approvalKey, "reassign", { ...to, ...(requestId ? { request_id: requestId } : {}) });
  }

  /** The standing rules, newest first. */
  async rules(query: RuleQuery = {}): Promise<{ rules: StandingRule[]; next: string | undefined }> {
    const body = await this.#get<{ rules?: StandingRule[]; next_cursor?: string | null }>(`/v1/rules${search(query)}`);
    return { rules: body.rules ?? [], next: body.next_cursor ?? undefined };
  }

  /** From the next call on people are asked again. The rule as it is now. */
  async revokeRule(id: string): Promise<StandingRule> {
    return this.#ask("DELETE", `/v1/rules/${encodeURIComponent(id)}`);
  }

  async history(sessionId: string, query: HistoryQuery = {}): Promise<HistoryPage> {
    return this.#get(`/v1/sessions/${encodeURIComponent(sessionId)}/history${search(query)}`);
  }

  /** The graph a session runs on, with where it stands. */
  async sessionGraph(sessionId: string): Promise<SessionGraph> {
    return this.#get(`/v1/sessions/${encodeURIComponent(sessionId)}/graph`);
  }

  /** The names of the graphs that sessions can run. */
  async graphs(): Promise<string[]> {
    const body = await this.#get<{ graphs?: { name: string }[] }>("/v1/graphs");
    return (body.graphs ?? []).map((graph) => graph.name);
  }

  /** Begin a run of a graph. It goes on by itself. */
  async startRun(graph: string, request: RunRequest): Promise<SessionSummary> {
    return this.#ask("POST", `/v1/graphs/${encodeURIComponent(graph)}/runs`, { ...request } as JsonObject);
  }

  /** The session's state, now or at a checkpoint. */
  async state(sessionId: string, checkpoint?: number): Promise<SessionState> {
    return this.#get(`/v1/sessions/${encodeURIComponent(sessionId)}/state${search({ checkpoint })}`);
  }

  /** Change the state of a graph's run, as a node would. The same `requestId` again is done once. */
  async editState(sessionId: string, update: JsonValue, requestId?: string): Promise<SessionState> {
    const body: JsonObject = { update, ...(requestId ? { request_id: requestId } : {}) };
    return this.#ask("POST", `/v1/sessions/${encodeURIComponent(sessionId)}/state`, body);
  }

  /**
   * Let a turn, or a run of a graph, continue that has failed: what failed is tried again, what is done stays done, and
   * what was decided meanwhile takes effect. The same `requestId` again is done once.
   */
  async retry(sessionId: string, { moreCalls, requestId }: RetryOptions = {}): Promise<SessionSummary> {
    const body: JsonObject = {
      ...(moreCalls === undefined ? {} : { more_calls: moreCalls }),
      ...(requestId ? { request_id: requestId } : {}),
    };
    return this.#ask("POST", `/v1/sessions/${encodeURIComponent(sessionId)}/retry`, body);
  }

  /** The places at which the session stood whole, newest first. */
  async checkpoints(
    sessionId: string,
    query: { cursor?: string; limit?: number } = {},
  ): Promise<{ checkpoints: Checkpoint[]; next: string | undefined }> {
    const body = await this.#get<{ checkpoints?: Checkpoint[]; next_cursor?: string | null }>(
      `/v1/sessions/${encodeURIComponent(sessionId)}/checkpoints${search(query)}`,
    );
    return { checkpoints: body.checkpoints ?? [], next: body.next_cursor ?? undefined };
  }

  /** Make a new session that has this one's past up to a checkpoint. This one stays as it is. */
  async fork(sessionId: string, request: ForkRequest = {}): Promise<SessionSummary> {
    return this.#ask("POST", `/v1/sessions/${encodeURIComponent(sessionId)}/fork`, { ...request } as JsonObject);
  }

  async #note(approvalKey: string, kind: string, body: JsonObject): Promise<ApprovalView> {
    return approvalOf(await this.#ask("POST", `/v1/approvals/${encodeURIComponent(approvalKey)}/${kind}`, body));
  }

  #get<T>(path: string): Promise<T> {
    return this.#ask("GET", path);
  }

  async #ask<T>(method: string, path: string, body?: JsonObject): Promise<T> {
    const { baseUrl = "", token, fetch: fetchFn = globalThis.fetch } = this.#options;
    const bearer = token?.();
    const before = Date.now();
    const response = await fetchFn(baseUrl + path, {
      method,
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(bearer ? { authorization: `Bearer ${bearer}` } : {}),
      },
      ...(body === undefined ? {} : { body: stringifyJson(body) }),
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

/** What `GET /v1/approvals` and its kin answer: the block, how it stands, and how it ended. */
type ApprovalRow = ApprovalRequestBlock & {
  session_id: string;
  subject?: string;
  updates?: UpdateView[];
  resolution?: Resolution;
  by?: string;
  decisions?: Decision[];
  answers?: Answers;
  resume?: JsonValue;
};

function approvalOf(row: ApprovalRow): ApprovalView {
  const { subject, resolution, by, decisions, answers, resume } = row;
  return {
    ...approvalFromBlock(row, row.session_id),
    complete: true,
    ...(subject === undefined ? {} : { subject }),
    ...(resolution === undefined ? {} : { resolution }),
    ...(by === undefined ? {} : { by }),
    ...(decisions === undefined ? {} : { decisions }),
    ...(answers === undefined ? {} : { answers }),
    ...(resume === undefined ? {} : { resume }),
  };
}

/** `?a=1&b=2` of what is given, or nothing. */
function search(query: object): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text && `?${text}`;
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
