/** The whole HTTP interface, including what a WebSocket connection can do. */
import { CountersignError } from "./errors.js";
import { approvalFromBlock } from "./fold.js";
import { OPERATIONS, type ApprovalView as ApprovalRow, type Operations } from "./generated/http.js";
import type * as Http from "./generated/http.js";
import { readJson, stringifyJson, type JsonObject, type JsonValue } from "./json.js";
import { isSessionEvent, type ErrorEvent, type HeldTurn, type Preview, type ReviewConfig, type SessionEvent } from "./protocol.js";
import type { Open } from "./open.js";
import { dataOf } from "./sse.js";
import type { ApprovalView } from "./view.js";

export type {
  AgentGraph,
  AgentView as AgentSummary,
  AuditLog,
  AuditRecord,
  AuditVerification,
  CheckpointView as Checkpoint,
  CreateSession as NewSession,
  Decide as Reply,
  FailedMessage,
  ForkedFrom,
  ForkSession as ForkRequest,
  Graph as NamedGraph,
  Health,
  Outcome,
  PolicyRuleView as PolicyRule,
  PolicyView as Policy,
  PostMessage as NewMessage,
  PreviewEdit as Edit,
  RuleView as StandingRule,
  SessionView as SessionSummary,
  StartRun as RunRequest,
  StateView as SessionState,
  ToolApprovalView as ToolApproval,
  WebhookView as Webhook,
} from "./generated/http.js";

type Query<K extends keyof Operations> = Operations[K] extends { query?: infer Q } ? NonNullable<Q> : never;

export type ApprovalQuery = Query<"listApprovals">;
export type SessionQuery = Query<"listSessions">;
export type RuleQuery = Query<"listRules">;
/** Which page of a history. Without a cursor: the first in its direction, so `backward` begins with the newest. */
export type HistoryQuery = Query<"readHistory">;

/** How a failed turn continues. */
export interface RetryOptions {
  /** How many more model calls it may make: needed after `max_turns`, and at most the agent's `max_turns`. */
  moreCalls?: number;
  /** Makes it safe to send again. */
  requestId?: string;
}

/** Where a stream of events begins, and what ends it. */
export interface FollowOptions {
  /** Replay the events after this `seq` (0: from the start). Absent: only new events. */
  after?: number;
  /** In place of `after`: the newest turns that have at least this many messages together. */
  last?: number;
  /** With `after` or `last`: only events before this `seq`. The stream ends there. */
  before?: number;
  signal?: AbortSignal;
}

export interface HttpOptions {
  /** The origin and path prefix of the server; empty for the page's own. Slashes at its end do not count. */
  baseUrl?: string;
  token?: () => string | undefined;
  fetch?: typeof fetch;
  /**
   * How long to wait for an answer before the server counts as `unreachable`; no limit if absent. Streams, exports, and
   * calls that wait for a turn or for the whole audit log have no limit.
   */
  timeoutMs?: number;
}

/** The input of an operation, and the expected form of its answer. */
interface Ask {
  path?: Record<string, string>;
  query?: object;
  body?: object;
  accept?: string;
  /** Ends it, also before the time limit does. */
  signal?: AbortSignal | undefined;
  /** The answer may take any time. */
  endless?: boolean;
}

export class CountersignHttp {
  readonly #options: HttpOptions;
  /** Server clock minus ours, in ms, from the `Date` headers: good to about a second at first, and better with more answers. */
  clockOffsetMs = 0;
  /** The bounds of the offset, by all answers. */
  #clockOffset: readonly [number, number] = [-Infinity, Infinity];

  constructor(options: HttpOptions = {}) {
    this.#options = { ...options, baseUrl: (options.baseUrl ?? "").replace(/\/+$/, "") };
  }

  // ------------------------------------------------------------ agents and graphs

  async agents(): Promise<Http.AgentView[]> {
    return (await this.#json("listAgents")).agents;
  }

  /** The graph an agent runs on; with a session, its position. */
  agentGraph(name: string, sessionId?: string): Promise<Http.AgentGraph> {
    return this.#json("getAgentGraph", { path: { name }, query: { session_id: sessionId } });
  }

  /** The names of the graphs that sessions can run. */
  async graphs(): Promise<string[]> {
    return (await this.#json("listGraphs")).graphs.map((graph) => graph.name);
  }

  graph(name: string): Promise<Http.Graph> {
    return this.#json("getGraph", { path: { name } });
  }

  /** Begin a run of a graph. It continues by itself. */
  startRun(graph: string, request: Http.StartRun): Promise<Http.SessionView> {
    return this.#json("startRun", { path: { name: graph }, body: request });
  }

  // ------------------------------------------------------------ sessions

  async sessions(query: string | SessionQuery = {}): Promise<{ sessions: Http.SessionView[]; next: string | undefined }> {
    const body = await this.#json("listSessions", { query: typeof query === "string" ? { cursor: query } : query });
    return { sessions: body.sessions, next: body.next_cursor ?? undefined };
  }

  /** Make a session without a message. The same id again answers with the session as it is. */
  createSession(session: Http.CreateSession = {}): Promise<Http.SessionView> {
    return this.#json("createSession", { body: session });
  }

  session(sessionId: string): Promise<Http.SessionView> {
    return this.#json("getSession", of(sessionId));
  }

  /** Give it a title; an empty one restores the automatic title. Of two titles the later one stays. */
  renameSession(sessionId: string, title: string): Promise<Http.SessionView> {
    return this.#json("changeSession", { ...of(sessionId), body: { title } });
  }

  /** Delete it with everything in it. Its id is never used again. */
  deleteSession(sessionId: string): Promise<void> {
    return this.#json("deleteSession", of(sessionId));
  }

  /** Send a message, and wait until the turn pauses or ends. `signal` ends only the waiting: the turn continues. */
  sendMessage(sessionId: string, message: Http.PostMessage, signal?: AbortSignal): Promise<Http.Outcome> {
    return this.#json("sendMessage", { ...of(sessionId), body: message, signal, endless: true });
  }

  /**
   * Send a message, and follow the turn until it pauses or ends. If the message was sent before, by its `request_id`,
   * only the events from now on are returned, and none once the turn has paused or ended: after a lost connection, or
   * after `shutting_down`, which is thrown where the server stops and the turn continues, go on with
   * `events(sessionId, { after })`, where `after` is the last `seq` that was seen.
   */
  streamMessage(sessionId: string, message: Http.PostMessage, signal?: AbortSignal): AsyncGenerator<SessionEvent, void> {
    return this.#stream("sendMessage", { ...of(sessionId), body: message, signal });
  }

  /**
   * The session's events, until the server says why there are no more, as `shutting_down`, which is thrown;
   * `CountersignClient` connects again by itself.
   */
  events(sessionId: string, { signal, ...query }: FollowOptions = {}): AsyncGenerator<SessionEvent, void> {
    return this.#stream("followSession", { ...of(sessionId), query, signal });
  }

  /** Stop the turn; pending requests are resolved as cancelled. */
  cancel(sessionId: string, requestId?: string): Promise<Http.SessionView> {
    return this.#json("cancelTurn", { ...of(sessionId), body: named(requestId) });
  }

  history(sessionId: string, query: HistoryQuery = {}): Promise<Http.History> {
    return this.#json("readHistory", { ...of(sessionId), query });
  }

  /** The graph a session runs on, with its position. */
  sessionGraph(sessionId: string): Promise<Http.GraphView> {
    return this.#json("getSessionGraph", of(sessionId));
  }

  /** The session's state, now or at a checkpoint. */
  state(sessionId: string, checkpoint?: number): Promise<Http.StateView> {
    return this.#json("getState", { ...of(sessionId), query: { checkpoint } });
  }

  /** Change the state of a graph's run, as a node would. Repeating a `requestId` has no further effect. */
  editState(sessionId: string, update: JsonValue, requestId?: string): Promise<Http.StateView> {
    return this.#json("editState", { ...of(sessionId), body: { update, ...named(requestId) } });
  }

  /**
   * Let a failed turn, or a failed run of a graph, continue: failed work is retried, finished work is kept, and
   * decisions made meanwhile take effect. Repeating a `requestId` has no further effect.
   */
  retry(sessionId: string, { moreCalls, requestId }: RetryOptions = {}): Promise<Http.SessionView> {
    const more = moreCalls === undefined ? {} : { more_calls: moreCalls };
    return this.#json("retrySession", { ...of(sessionId), body: { ...more, ...named(requestId) } });
  }

  /** The session's checkpoints, newest first. */
  async checkpoints(
    sessionId: string,
    query: Query<"listCheckpoints"> = {},
  ): Promise<{ checkpoints: Http.CheckpointView[]; next: string | undefined }> {
    const body = await this.#json("listCheckpoints", { ...of(sessionId), query });
    return { checkpoints: body.checkpoints, next: body.next_cursor ?? undefined };
  }

  /** Make a new session that has this one's past up to a checkpoint. This one stays as it is. */
  fork(sessionId: string, request: Http.ForkSession = {}): Promise<Http.SessionView> {
    return this.#json("forkSession", { ...of(sessionId), body: request });
  }

  // ------------------------------------------------------------ approvals

  /** Pending and resolved requests, across sessions, a page at a time: the soonest deadline first. */
  async approvals(query: ApprovalQuery = {}, signal?: AbortSignal): Promise<{ approvals: ListedApproval[]; next: string | undefined }> {
    const body = await this.#json("listApprovals", { query, signal });
    return { approvals: body.approvals.map(approvalOf), next: body.next_cursor ?? undefined };
  }

  /** Only what is pending. */
  pending(query: Omit<ApprovalQuery, "status"> = {}, signal?: AbortSignal): Promise<{ approvals: ListedApproval[]; next: string | undefined }> {
    return this.approvals({ status: "waiting", ...query }, signal);
  }

  /** One request, with its comments and their times. */
  async approval(approvalKey: string): Promise<ListedApproval> {
    return approvalOf(await this.#json("getApproval", about(approvalKey)));
  }

  /** Decide or answer. Returns the request as it is then; the turn continues by itself. */
  async decide(approvalKey: string, reply: Http.Decide): Promise<ListedApproval> {
    return approvalOf((await this.#json("decideApproval", { ...about(approvalKey), body: reply })) as ApprovalRow);
  }

  /**
   * The outcome of an edit if it were decided now, and what the edited call would do. Nothing changes; the decision is judged
   * again. It may take as long as the tool does, up to some minutes: `signal` ends it, on the server too.
   */
  async previewEdit(approvalKey: string, edit: Http.PreviewEdit, signal?: AbortSignal): Promise<EditPreview> {
    return editPreviewOf(await this.#json("previewEdit", { ...about(approvalKey), body: edit, signal, endless: true }), approvalKey);
  }

  /** Decide or answer, and wait until the turn pauses or ends. `signal` ends only the waiting: the decision still counts. */
  async decideAndWait(approvalKey: string, reply: Http.Decide, signal?: AbortSignal): Promise<Http.Outcome> {
    const asked = { ...about(approvalKey), query: { wait: true }, body: reply, signal, endless: true };
    return (await this.#json("decideApproval", asked)) as Http.Outcome;
  }

  /** The same as the client's `comment`, without a connection. Repeating a `requestId` has no further effect. */
  async comment(approvalKey: string, text: string, requestId?: string): Promise<ListedApproval> {
    return approvalOf(await this.#json("commentApproval", { ...about(approvalKey), body: { text, ...named(requestId) } }));
  }

  /** The same as the client's `reassign`, without a connection. */
  async reassign(
    approvalKey: string,
    to: Omit<Http.Reassign, "request_id">,
    requestId?: string,
  ): Promise<ListedApproval> {
    return approvalOf(await this.#json("reassignApproval", { ...about(approvalKey), body: { ...to, ...named(requestId) } }));
  }

  /** The standing rules, newest first. */
  async rules(query: RuleQuery = {}): Promise<{ rules: Http.RuleView[]; next: string | undefined }> {
    const body = await this.#json("listRules", { query });
    return { rules: body.rules, next: body.next_cursor ?? undefined };
  }

  /** The policy in force: the operator's rules, and each tool's own approval. */
  policy(): Promise<Http.PolicyView> {
    return this.#json("getPolicy");
  }

  /** Revoke a rule: from the next call on people are asked again. Returns the rule as it is now. */
  revokeRule(id: string): Promise<Http.RuleView> {
    return this.#json("revokeRule", { path: { rule_id: id } });
  }

  // ------------------------------------------------------------ operation

  /** The audit log; `next` is the `cursor` of the next page; there is none on the last page. */
  async audit(query: Query<"readAudit"> = {}): Promise<{ records: Http.AuditRecord[]; next: number | undefined }> {
    const { records, next_cursor } = await this.#json("readAudit", { query });
    return { records, next: next_cursor === null ? undefined : Number(next_cursor) };
  }

  /** A page of the audit log in the form of an export: one record per line, each as it is stored. */
  async auditLines(query: Omit<Query<"readAudit">, "format"> = {}, signal?: AbortSignal): Promise<string> {
    const asked = { query: { ...query, format: "jsonl" }, accept: "application/jsonl", signal, endless: true };
    return this.#text("readAudit", asked);
  }

  /** Verify the whole chain of the audit log, also against the anchor of an earlier verification. */
  verifyAudit(anchor?: string, signal?: AbortSignal): Promise<Http.AuditVerification> {
    return this.#json("verifyAudit", { query: { anchor }, signal, endless: true });
  }

  /** The webhooks, and the state of their deliveries. */
  async webhooks(): Promise<Http.WebhookView[]> {
    return (await this.#json("listWebhooks")).webhooks;
  }

  /** The messages of a webhook that did not arrive; `next` is the `cursor` of the next page. */
  async failedMessages(
    webhook: string,
    query: Query<"listFailedMessages"> = {},
  ): Promise<{ failed: Http.FailedMessage[]; next: string | undefined }> {
    const { failed, next_cursor } = await this.#json("listFailedMessages", { path: { name: webhook }, query });
    return { failed, next: next_cursor ?? undefined };
  }

  /** Send one of them again, now. */
  retryFailedMessage(webhook: string, n: number): Promise<Http.Retried> {
    return this.#json("retryFailedMessage", { path: { name: webhook, n: String(n) }, body: {} });
  }

  /** Send its dead letters again. */
  retryFailedMessages(webhook: string): Promise<Http.Retried> {
    return this.#json("retryFailedMessages", { path: { name: webhook }, body: {} });
  }

  /** Drop undelivered messages, and those still to be sent; also of a webhook that is no longer configured. */
  forgetWebhook(webhook: string): Promise<Http.Forgotten> {
    return this.#json("forgetWebhook", { path: { name: webhook }, body: {} });
  }

  /** Send a message that is marked as a test, once. */
  testWebhook(webhook: string): Promise<Http.Tested> {
    return this.#json("testWebhook", { path: { name: webhook }, body: {} });
  }

  /** Whether the server runs. */
  health(): Promise<Http.Health> {
    return this.#json("healthz");
  }

  /** Whether its store can be written to; else an error with the status 503. */
  ready(): Promise<Http.Health> {
    return this.#json("readyz");
  }

  /** The server's metrics, as OpenMetrics text. */
  metrics(): Promise<string> {
    return this.#text("metrics", { accept: "application/openmetrics-text, text/plain" });
  }

  /** The OpenAPI document. */
  openapi(): Promise<JsonObject> {
    return this.#json("openapi");
  }

  /** The AsyncAPI document. */
  asyncapi(): Promise<JsonObject> {
    return this.#json("asyncapi");
  }

  /** The JSON Schema of the WebSocket's frames. */
  wireSchema(): Promise<JsonObject> {
    return this.#json("wireSchema");
  }

  /**
   * The address for `CountersignClient`. If `baseUrl` is the page's own, so is this. Throws a `TypeError` if `baseUrl`
   * leads to no server: without a page, as in Node.js, it must be absolute.
   */
  webSocketUrl(): string {
    const { baseUrl = "" } = this.#options;
    const address = whole(baseUrl + OPERATIONS.connect.path);
    if (/^https?:/.test(address)) return address.replace("http", "ws");
    throw new TypeError(`The baseUrl ${JSON.stringify(baseUrl)} is not the address of a server: give one like "http://127.0.0.1:7410".`);
  }

  // ------------------------------------------------------------ asking

  async #json<K extends keyof Operations>(operation: K, ask: Ask = {}): Promise<Operations[K]["answer"]> {
    const response = await this.#fetch(operation, ask);
    const text = await response.text().catch(unreachableUnless(ask.signal));
    try {
      return (text === "" ? undefined : readJson(text)) as Operations[K]["answer"];
    } catch (cause) {
      throw notTheServers(response, "application/json", cause);
    }
  }

  async #text(operation: keyof Operations, ask: Ask): Promise<string> {
    const response = await this.#fetch(operation, ask);
    return response.text().catch(unreachableUnless(ask.signal));
  }

  async *#stream(operation: keyof Operations, ask: Ask): AsyncGenerator<SessionEvent, void> {
    const { body } = await this.#fetch(operation, { ...ask, accept: "text/event-stream", endless: true });
    if (!body) return;
    try {
      for await (const data of dataOf(body)) {
        const event = readJson(data) as unknown as SessionEvent | ErrorEvent;
        if (event.type === "error") throw CountersignError.fromEvent(event);
        if (isSessionEvent(event)) yield event;
      }
    } catch (cause) {
      unreachableUnless(ask.signal)(cause);
    }
  }

  async #fetch(operation: keyof Operations, { path = {}, query = {}, body, accept, signal, endless }: Ask): Promise<Response> {
    const { baseUrl = "", token, fetch: fetchFn = globalThis.fetch, timeoutMs } = this.#options;
    const { method, path: template } = OPERATIONS[operation];
    const place = template.replace(/\{(\w+)\}/g, (_, name: string) => segment(name, path[name]));
    const bearer = token?.()?.trim();
    // The error of a header would repeat it.
    if (bearer && !HEADER_TEXT.test(bearer)) throw new CountersignError("unauthenticated", "The token cannot be sent: it has characters other than those of ASCII, or several lines.");
    const limit = endless || timeoutMs === undefined ? undefined : AbortSignal.timeout(timeoutMs);
    // Browsers from before 2024 cannot combine two signals.
    const ends = signal && limit ? (AbortSignal.any?.([signal, limit]) ?? signal) : (signal ?? limit);
    const before = Date.now();
    const response = await fetchFn(baseUrl + place + search(query), {
      method,
      headers: {
        accept: accept ?? "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(bearer ? { authorization: `Bearer ${bearer}` } : {}),
      },
      ...(body === undefined ? {} : { body: stringifyJson(body) }),
      ...(ends ? { signal: ends } : {}),
      cache: "no-store",
    }).catch(unreachableUnless(signal));
    this.#readClock(response.headers.get("date"), before);
    if (response.ok) {
      if (accept === undefined || accept.includes(typeOf(response) ?? accept)) return response;
      // Nothing else would distinguish it from the requested answer.
      await response.body?.cancel().catch(() => undefined);
      throw notTheServers(response, accept);
    }
    throw CountersignError.fromAnswer(response.status, await response.text().catch(unreachableUnless(signal)), path.approval_key);
  }

  #readClock(date: string | null, before: number): void {
    const server = date ? Date.parse(date) : Number.NaN;
    if (Number.isNaN(server)) return;
    // The header has whole seconds, and was written at some time since we asked.
    const [least, most] = [server - Date.now(), server + 999 - before];
    const both = [Math.max(least, this.#clockOffset[0]), Math.min(most, this.#clockOffset[1])] as const;
    // If the bounds contradict each other, one of the clocks was set, or has drifted.
    this.#clockOffset = both[0] <= both[1] ? both : [least, most];
    const offset = (this.#clockOffset[0] + this.#clockOffset[1]) / 2;
    // A difference below two seconds counts as none.
    this.clockOffsetMs = Math.abs(offset) < 2000 ? 0 : offset;
  }
}

/** What a header may be, and a token is. */
const HEADER_TEXT = /^[\x20-\x7e]*$/;

/** An address resolved against this page; empty if it is invalid. */
function whole(address: string): string {
  try {
    return new URL(address, globalThis.location?.href).href;
  } catch {
    return "";
  }
}

/**
 * A segment of a path. In an address `.` and `..` lead elsewhere, however they are written, and so does an empty
 * segment.
 */
function segment(name: string, value = ""): string {
  if (!["", ".", ".."].includes(value)) return encodeURIComponent(value);
  const code = name === "session_id" ? "invalid_session_id" : "not_found";
  throw new CountersignError(code, `"${value}" is no ${name}: it is another place in an address.`);
}

/** The error if no answer came, unless the caller itself has given up. */
const unreachableUnless = (signal: AbortSignal | undefined) => (cause: unknown): never => {
  throw signal?.aborted ? cause : CountersignError.of(cause);
};

const typeOf = (response: Response) => response.headers.get("content-type")?.split(";")[0]!.trim();

/** For example the sign-in page of a proxy. */
function notTheServers(response: Response, wanted: string, cause?: unknown): CountersignError {
  const { status } = response;
  return new CountersignError(`http_${status}`, `The answer is ${typeOf(response)}, not ${wanted}.`, { status, cause });
}

const of = (session_id: string) => ({ path: { session_id } });
const about = (approval_key: string) => ({ path: { approval_key } });
const named = (requestId: string | undefined) => (requestId ? { request_id: requestId } : {});

/** A request as lists have it: they say when it was made, and when it ended. */
export interface ListedApproval extends ApprovalView {
  /** RFC 3339. */
  createdAt?: string;
  /** RFC 3339; absent while it waits. */
  resolvedAt?: string;
  /** Why its session is held, if it is: `message` says what continues it. */
  held?: HeldTurn;
}

/** The outcome of an edit if it were decided now. */
export interface EditPreview {
  /**
   * `approves`: it approves the edited call. `asks`: people are asked about that. `refused`: the decision would be
   * refused.
   */
  outcome: Open<Http.EditPreviewView["outcome"]>;
  /** With `asks`: how people would be asked, at once, or after other calls or a retry. */
  reviewConfig?: ReviewConfig;
  /** Why it would be refused. */
  error?: CountersignError;
  /** What the edited call would do, if its tool says so. */
  preview?: Preview;
}

function editPreviewOf({ outcome, review_config: reviewConfig, problem, preview }: Http.EditPreviewView, approvalKey: string): EditPreview {
  return {
    outcome,
    ...(reviewConfig === undefined ? {} : { reviewConfig }),
    ...(problem === undefined ? {} : { error: new CountersignError(problem.code, problem.detail, { status: problem.status, details: problem.details, approvalKey, byServer: true }) }),
    ...(preview === undefined ? {} : { preview }),
  };
}

/** A row of `GET /v1/approvals` and similar answers: the block, its state, and how it ended. */
function approvalOf(row: ApprovalRow): ListedApproval {
  const { subject, created_at: createdAt, resolved_at: resolvedAt, held, resolution, reason, by, decisions, answers, resume } = row;
  return {
    ...approvalFromBlock(row, row.session_id),
    complete: true,
    ...(subject === undefined ? {} : { subject }),
    ...(createdAt === undefined ? {} : { createdAt }),
    ...(resolvedAt === undefined ? {} : { resolvedAt }),
    ...(held === undefined ? {} : { held }),
    ...(resolution === undefined ? {} : { resolution }),
    ...(reason === undefined ? {} : { reason }),
    ...(by === undefined ? {} : { by }),
    ...(decisions === undefined ? {} : { decisions }),
    ...(answers === undefined ? {} : { answers }),
    ...(resume === undefined ? {} : { resume }),
  };
}

/** `?a=1&b=2` from the given values, or an empty text. */
function search(query: object): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(given.map(([key, value]) => [key, String(value)])).toString();
  return text && `?${text}`;
}
