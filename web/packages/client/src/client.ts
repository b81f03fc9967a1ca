/**
 * A connection to a Countersign server that maintains itself.
 *
 * - It reconnects forever, with growing pauses, and follows its sessions again from the last `seq` it saw. If the
 *   server does not know that `seq`, because its store was in memory or was restored from a backup, the session starts
 *   over. A session that does not exist is requested again, with growing pauses too, until it does.
 * - Every request carries a `request_id` and stays in an outbox until the server answers it. After a
 *   reconnect it is sent again under the same id, so the server executes it once however often it arrives. It is also
 *   resent, with growing pauses, as long as the server does not know whether it has stored it; later requests of its
 *   session wait for that.
 * - A connection that the server does not greet in time, or that does not answer a ping within a heartbeat, is
 *   given up, unless requests are still being sent before the ping: a half-open socket would otherwise look alive for
 *   minutes.
 */
import { backoffMs, type BackoffOptions } from "./backoff.js";
import { Emitter, report } from "./emitter.js";
import { Cursor } from "./cursor.js";
import { CountersignError } from "./errors.js";
import { frameOf } from "./frame.js";
import { randomId } from "./ids.js";
import { isObject, readJson, type JsonValue } from "./json.js";
import { refusesToken, type WhyNot } from "./probe.js";
import type { ApprovalView } from "./view.js";
import {
  isSessionEvent,
  SUBPROTOCOL,
  UNAUTHENTICATED,
  type AckEvent,
  type ApprovalCommand,
  type CommentCommand,
  type ErrorEvent,
  type HelloEvent,
  type MessageCommand,
  type PingCommand,
  type ReassignCommand,
  type ServerEvent,
  type SessionEvent,
  type SubscribeCommand,
  type UnsubscribeCommand,
} from "./protocol.js";

export type ConnectionState =
  | "idle"
  | "connecting"
  | "open"
  /** Lost; it will try again. */
  | "reconnecting"
  /** The server requires a token, or another one. Waits for `setToken`. */
  | "unauthorized"
  | "closed";

export interface ClientOptions {
  /** `ws://…/v1/ws` */
  url: string;
  token?: string;
  backoff?: BackoffOptions;
  /**
   * A browser cannot see why an upgrade failed. This function is called after a connection that never opened, and says
   * whether the server refuses the token. By default the client asks over HTTP, at the address beside the WebSocket's:
   * `…/v1/agents`.
   * If it throws a `CountersignError` with the code `forbidden` or `not_found`, that is emitted as `error`.
   */
  isUnauthorized?: (token: string | undefined) => Promise<boolean>;
  /** A `WebSocket` class where there is no global one, as in Node before 22: for example that of the package `ws`. */
  webSocket?: new (url: string, protocols: string[]) => AnyWebSocket;
}

/** The part of a `WebSocket` that the client uses, so that implementations other than the browser's fit. */
export interface AnyWebSocket {
  /** The bytes that are not on their way yet; where it is missing, a large request must be sent within two heartbeats. */
  readonly bufferedAmount?: number;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(text: string): void;
  close(): void;
}

export type ClientEvents = {
  state: ConnectionState;
  /**
   * The server greets a new connection: queued requests are sent after the listeners have run, unless one closes the
   * connection. Or it says on an open connection that the person has other roles now, or another tenant: nothing is
   * sent again.
   */
  hello: HelloEvent;
  /**
   * An event of a followed session: from the point of the latest subscription, in order, and without gaps. An event is
   * emitted twice only if an open block starts over, with all of its content, or after `restarted`. A newer server may
   * send events whose `type` is not known here.
   */
  event: SessionEvent;
  /**
   * The events so far of this session are void: all of them are emitted again. They began too late, or the server has
   * lost events that were seen, or it has another history; if it has lost the whole session, `error` says so. Or
   * somebody has subscribed to the session from an earlier `seq` while it is followed.
   */
  restarted: string;
  /** The server is asked to follow this session, for the first time or again; `error` says if it does not. */
  follows: string;
  /**
   * The server has another history, with this id: everything seen of any session is void. Followed sessions are
   * `restarted` next.
   */
  historyChanged: string;
  /**
   * An error that answers no request of ours, for example of a subscription. `forbidden` without a session: as far as
   * can be known, the server does not let this page connect, or anyone who uses this host name; `not_found`: there is
   * no server at this address. Each is emitted once, and connecting is retried. `unauthenticated`: the token has
   * characters that cannot be sent; the state is `unauthorized`. `bad_json` without a session: a frame that came is not
   * an event; the connection is opened again.
   *
   * And `outcome_unknown` with a `request_id`, once for each request of ours: the server does not know whether it has
   * stored the request, which is resent until the server knows.
   */
  error: ErrorEvent;
  /**
   * The token this connection was opened with is no longer valid, and there is no other yet; the server's reason. The
   * state is
   * `unauthorized`.
   */
  tokenEnded: string;
};

/** RFC 9110, token. */
const SUBPROTOCOL_CHARACTERS = /^[\w!#$%&'*+.^`|~-]+$/;

type Request = (MessageCommand | ApprovalCommand | CommentCommand | ReassignCommand) & { request_id: string };

interface Pending {
  /** Its frame. */
  text: string;
  sessionId: string;
  /** The token in whose name it was requested. */
  token: string | undefined;
  /**
   * How often it was sent: more than once if a connection was lost in between, or if the server did not know its
   * outcome.
   */
  sent: number;
  /** How often the server did not know its outcome. */
  unknown: number;
  /** The timer for sending it again. */
  soon?: ReturnType<typeof setTimeout> | undefined;
  resolve: (ack: AckEvent) => void;
  reject: (error: Error) => void;
}

interface PendingCancel {
  resolve: (ack: AckEvent) => void;
  reject: (error: Error) => void;
}

/** Where following a session begins. */
export type FollowFrom =
  /** After this `seq`; 0 is from the start. */
  | number
  /**
   * At its end: with the newest turn that has at least this many messages from its start on. For the part before: see
   * `withEarlier`. With `after`, a `seq`: after that, and at its end only if the server no longer knows that `seq`.
   */
  | { last: number; after?: number };

/** Why a session cannot be followed for the moment: following is retried. */
const FOR_NOW: readonly string[] = ["store_unavailable", "outcome_unknown", "newer_version_required", "too_busy"] satisfies ErrorEvent["code"][];
const FOLLOW_AGAIN_MS = 1000;

/** The server does not know whether a request is stored: under another id it might be executed twice. */
const UNKNOWN: ErrorEvent["code"] = "outcome_unknown";
const UNKNOWN_PAUSES: BackoffOptions = { firstMs: 1000, maxMs: 10_000 };
/** If one attempt was not stored, that says nothing about an earlier one whose outcome is unknown. */
const NOT_THIS_TIME: readonly string[] = ["store_unavailable", "store_closed", "newer_version_required", "too_busy"] satisfies ErrorEvent["code"][];
const NOT_KNOWN = "The server cannot say whether the request was stored when it was sent before. It is sent again until that is known.";

/**
 * A missing session may be created elsewhere, or become visible to this person: it is requested again with growing
 * pauses.
 */
const MISSING: ErrorEvent["code"] = "session_not_found";
const MISSING_PAUSES: BackoffOptions = { firstMs: FOLLOW_AGAIN_MS, maxMs: 10_000 };

/** The connection follows the maximum number of sessions. */
const NO_ROOM: ErrorEvent["code"] = "too_many_followed";

/** The server does not know the `seq` from which to follow a session: the whole session is gone, or its end. */
const LOST: readonly string[] = ["session_not_found", "invalid_message"] satisfies ErrorEvent["code"][];

/**
 * A frame of ours that the server could not read: it does not say which. It answers the frames of a connection in their
 * order, so it is the first that has no answer yet, and all others may still be taken.
 */
const UNREAD: readonly string[] = ["bad_json", "too_large"] satisfies ErrorEvent["code"][];

/**
 * After this time a connection counts as working: the pauses before the next ones start over, as when the server has
 * answered a request.
 */
const LASTING_MS = 10_000;

/** Timers with a longer pause fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** How long the server may take to greet a new connection, and to say whether it refuses the token. */
const HELLO_MS = 20_000;
const PROBE_MS = 10_000;

interface Followed {
  cursor: Cursor;
  /** Whether the next event must be the one after the last. */
  inOrder: boolean;
  /** Events are missing, and are awaited. */
  missing: boolean;
  /** The timer for following it again. */
  soon?: ReturnType<typeof setTimeout> | undefined;
  /** How often it was missing since it was last there; `error` reports the first time. */
  missed?: number;
  /** The connection had no room for it. */
  waits?: boolean;
  /** Where following begins if nothing of it is known; absent: at its start. */
  last?: number | undefined;
  /** The `seq` of the first event, if the server chose it. */
  first?: number | undefined;
  /** The server knows the session, so it may be subscribed to. */
  exists: boolean;
}

interface From {
  after?: number;
  last?: number | undefined;
}

/** Whether the way a session is followed now already covers following it from there. */
function goesOn({ cursor, last: before }: Followed, after: number, last: number | undefined): boolean {
  return cursor.lastSeq <= after && (cursor.lastSeq > 0 || before === undefined || last !== undefined);
}

/** `undefined` if a frame cannot be one of a server's. */
function eventIn(text: string): ServerEvent | undefined {
  let event: JsonValue;
  try {
    event = readJson(text);
  } catch {
    return undefined;
  }
  return isObject(event) && typeof event.type === "string" ? (event as unknown as ServerEvent) : undefined;
}

export class CountersignClient extends Emitter<ClientEvents> {
  readonly #options: ClientOptions;
  #token: string | undefined;
  #state: ConnectionState = "idle";
  #socket: AnyWebSocket | undefined;
  #ready = false;
  #attempt = 0;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  #helloTimer: ReturnType<typeof setTimeout> | undefined;
  #beatTimer: ReturnType<typeof setInterval> | undefined;
  #heardSincePing = true;
  /** The bytes in front of the last ping that were not on their way yet, and those given to the socket from it on. */
  #ahead = 0;
  #given = 0;
  /** Ends the question why there is no connection. */
  #asking: AbortController | undefined;
  /** Whether the reason for the missing connection has been emitted. */
  #toldWhy = false;
  /** The id of the history that all seen events are from. */
  #historyId: string | undefined;
  readonly #followed = new Map<string, Followed>();
  readonly #outbox = new Map<string, Pending>();
  readonly #cancels = new Map<string, PendingCancel>();
  /** The ids of the unanswered requests that were sent on this connection, in the order they were sent. */
  readonly #inFlight = new Set<string>();
  /** Requests whose outcome the server did not know: later ones of their sessions wait. */
  readonly #unknown = new Set<Pending>();
  /** Whether everything that was queued when the connection was greeted has been sent. */
  #caughtUp = false;
  /** When the server greeted this connection, in ms. */
  #greetedAt: number | undefined;
  /** The token that this connection was opened with. */
  #openedWith: string | undefined;
  /** The person whom the server greeted last, and by which token. */
  #greeted: { token: string | undefined; person: string | undefined } | undefined;

  constructor(options: ClientOptions) {
    super();
    this.#options = options;
    this.#token = options.token;
  }

  get state(): ConnectionState {
    return this.#state;
  }

  /** How many requests the server has not answered yet. They are lost with the page. */
  get unsent(): number {
    return this.#outbox.size;
  }

  /** Connect, and stay connected until `close`. Throws if there is no `WebSocket`, or if the address is invalid. */
  connect(): void {
    if (this.#socket || this.#state === "connecting" || this.#state === "unauthorized") return;
    this.#open();
  }

  /** Retry at once instead of waiting for the next attempt, for example when the network is back. */
  retryNow(): void {
    if (this.#state === "reconnecting" && !this.#socket) this.#retry();
  }

  /**
   * The token of the next connection, which is opened at once if the state is `unauthorized`, or if the server has not
   * greeted the one that is being opened. An open connection continues with its own token until that ends, and then with
   * this one. Unacknowledged requests are sent with it only
   * if it is known to be the same person's.
   */
  setToken(token: string | undefined): void {
    this.#token = token;
    // What is requested from now on is in the name of this token: that connection is not the one to send it.
    if (this.#socket && !this.#greetedAt && token !== this.#openedWith) this.#drop();
    else if (this.#state !== "unauthorized") return;
    this.#open();
  }

  /** Close for good. Unacknowledged requests are rejected. */
  close(): void {
    clearTimeout(this.#retryTimer);
    this.#asking?.abort();
    this.#attempt = 0;
    this.#drop();
    this.#setState("closed");
    this.#failAll(new CountersignError("closed", "The connection was closed."));
  }

  /**
   * Follow a session: replay its events after `from`, then live ones. A connection has room for 256 sessions: for
   * another one `error` says `too_many_followed`, and it is followed once an `unsubscribe` has made room. If the
   * session is already followed, from later on or with later events emitted, all listeners get the events again, after
   * `restarted`.
   */
  subscribe(sessionId: string, from: FollowFrom = 0): void {
    const { after = 0, last }: From = typeof from === "number" ? { after: from } : from;
    const before = this.#followed.get(sessionId);
    if (before?.exists && goesOn(before, after, last)) {
      this.#notAgain(before);
      before.missed = 0;
      if (this.#ready) this.#follow(sessionId, before);
    } else if (before && before.cursor.lastSeq > 0) this.#beginAnew(sessionId, { last });
    else this.#followAnew(sessionId, { after, last });
  }

  #followAnew(sessionId: string, { after = 0, last }: From): void {
    this.#notAgain(this.#followed.get(sessionId));
    const known = after > 0;
    const followed: Followed = { cursor: new Cursor(after), last, first: known ? 0 : undefined, inOrder: known || last === undefined, missing: false, exists: true };
    this.#followed.set(sessionId, followed);
    if (this.#ready) this.#follow(sessionId, followed);
  }

  #follow(session_id: string, followed: Followed): void {
    const { cursor: { lastSeq }, last } = followed;
    followed.waits = false;
    this.emit("follows", session_id);
    this.#send({ type: "subscribe", session_id, ...(last === undefined || lastSeq > 0 ? { after: lastSeq } : { last }) });
  }

  unsubscribe(sessionId: string): void {
    this.#notAgain(this.#followed.get(sessionId));
    if (this.#followed.delete(sessionId) && this.#ready) this.#leave(sessionId);
  }

  /** This makes room to follow a session for which there was none. */
  #leave(sessionId: string): void {
    this.#send({ type: "unsubscribe", session_id: sessionId });
    const waits = [...this.#followed].find(([, followed]) => followed.waits);
    if (waits) this.#follow(...waits);
  }

  /**
   * Send a user message. Without a `session_id` the client makes one, and not the server: a retry after a lost
   * connection must reach the same session. The session is followed until `unsubscribe`; if the connection has no room
   * for another one, the message is refused with `too_many_followed`.
   *
   * Like every request but `cancel`, it waits without a limit until the server has stored or refused it, `close` is
   * called or the token ends. If the server does not know whether it has stored it, for example while its database
   * waits for a standby that is gone, it is resent until the server knows, and `error` says `outcome_unknown` once.
   * Later requests of its session wait meanwhile, so that they do not overtake it. `cancel` does not wait, nor do
   * requests that were sent before that was known, on this connection or a lost one.
   */
  sendMessage(message: Omit<MessageCommand, "type" | "request_id">): Promise<AckEvent> {
    const sessionId = message.session_id ?? randomId();
    return this.#request({ ...message, type: "message", session_id: sessionId, request_id: randomId() });
  }

  /**
   * Reply to a request as it was shown: with its digest, so that the reply counts for nothing else. It waits like
   * {@link CountersignClient.sendMessage} does.
   */
  reply(approval: ApprovalView, reply: Omit<ApprovalCommand, "type" | "request_id" | "session_id" | "approval_key" | "digest">): Promise<AckEvent> {
    const { sessionId, approvalKey, digest } = approval;
    const shown = digest === undefined ? {} : { digest };
    return this.sendApproval({ session_id: sessionId, approval_key: approvalKey, ...reply, ...shown });
  }

  /**
   * Reply to a request by its key. {@link CountersignClient.reply} also names what was shown. It waits like {@link
   * CountersignClient.sendMessage}.
   */
  sendApproval(approval: Omit<ApprovalCommand, "type" | "request_id">): Promise<AckEvent> {
    return this.#request({ ...approval, type: "approval", request_id: randomId() });
  }

  /** Comment on a pending request, for the other people. */
  comment(comment: Omit<CommentCommand, "type" | "request_id">): Promise<AckEvent> {
    return this.#request({ ...comment, type: "comment", request_id: randomId() });
  }

  /** Hand a pending request to somebody else. */
  reassign(reassign: Omit<ReassignCommand, "type" | "request_id">): Promise<AckEvent> {
    return this.#request({ ...reassign, type: "reassign", request_id: randomId() });
  }

  /** Stop the session's turn. Not repeated after a reconnect: by then it could stop another turn. */
  async cancel(sessionId: string): Promise<AckEvent> {
    if (!this.#ready) throw new CountersignError("offline", "Not connected.");
    const requestId = randomId();
    const text = frameOf({ type: "cancel", session_id: sessionId, request_id: requestId });
    return new Promise((resolve, reject) => {
      this.#cancels.set(requestId, { resolve, reject });
      this.#ask(requestId, text);
    });
  }

  // -------------------------------------------------------------- connection

  #open(): void {
    clearTimeout(this.#retryTimer);
    const before = this.#state;
    this.#setState(this.#attempt === 0 ? "connecting" : "reconnecting");
    // A listener has closed it.
    if (this.#state === "closed") return;
    let socket: AnyWebSocket | undefined;
    try {
      socket = this.#make();
    } catch (error) {
      this.#setState(before);
      throw error;
    }
    if (!socket) return this.#refuseToken();
    this.#socket = socket;
    this.#openedWith = this.#token;
    let opened = false;
    this.#helloTimer = setTimeout(() => void this.#lost(opened), HELLO_MS);
    socket.onopen = () => {
      opened = true;
    };
    // The close that follows says what it means. Without a listener `ws` ends the program.
    socket.onerror = () => undefined;
    socket.onmessage = (message: { data: unknown }) => {
      if (this.#socket === socket && typeof message.data === "string") this.#receive(message.data);
    };
    socket.onclose = (event?: { code: number; reason: string }) => {
      if (this.#socket !== socket) return;
      if (event?.code === UNAUTHENTICATED) this.#tokenEnded(event.reason);
      else void this.#lost(opened);
    };
  }

  /** `undefined` if the token has characters that a subprotocol may not have. */
  #make(): AnyWebSocket | undefined {
    const WebSocketClass = this.#options.webSocket ?? globalThis.WebSocket;
    if (!WebSocketClass) {
      throw new Error("There is no global WebSocket here: give the client one, as that of the package ws.");
    }
    const token = this.#token;
    if (token && !SUBPROTOCOL_CHARACTERS.test(token)) return undefined;
    return new WebSocketClass(this.#options.url, token ? [SUBPROTOCOL, `bearer.${token}`] : [SUBPROTOCOL]);
  }

  #refuseToken(): void {
    const message = "The token cannot be sent: it has characters other than letters, digits and !#$%&'*+-.^_`|~, the only ones that a WebSocket lets it have.";
    this.#signOut(message);
    this.emit("error", { type: "error", code: "unauthenticated", message });
  }

  #tokenEnded(reason: string): void {
    this.#drop();
    // It was renewed in time.
    if (this.#token !== undefined && this.#token !== this.#openedWith) {
      this.#failCancels(new CountersignError("offline", "The connection was lost."));
      this.#attempt = 1; // So the state is `reconnecting`.
      return this.#retry();
    }
    this.#attempt = 0;
    this.#token = undefined;
    this.#signOut(reason || "The token is valid no longer.");
    this.emit("tokenEnded", reason);
  }

  /** The next token may be somebody else's: queued requests are not sent in their name. */
  #signOut(reason: string): void {
    this.#failAll(new CountersignError("unauthenticated", reason));
    this.#setState("unauthorized");
  }

  async #lost(opened: boolean): Promise<void> {
    if (this.#greetedAt !== undefined && Date.now() - this.#greetedAt >= LASTING_MS) this.#attempt = 0;
    this.#drop();
    this.#failCancels(new CountersignError("offline", "The connection was lost."));
    if (this.#state === "closed") return;
    this.#setState("reconnecting");
    const token = this.#token;
    const refused = !opened && (await this.#refuses(token));
    // Somebody may have closed it meanwhile, or asked for another attempt, or there is another token.
    if (this.#state !== "reconnecting" || this.#socket) return;
    if (refused && this.#token === token) return this.#signOut("The server refuses the token.");
    this.#retryLater();
  }

  #retryLater(): void {
    const pause = backoffMs(this.#attempt++, this.#options.backoff);
    clearTimeout(this.#retryTimer);
    this.#retryTimer = setTimeout(() => this.#retry(), pause);
  }

  #retry(): void {
    try {
      this.#open();
    } catch (error) {
      report(error);
      this.#retryLater();
    }
  }

  /** Whether the server refuses the token; `false` as long as it does not say so. */
  async #refuses(token: string | undefined): Promise<boolean> {
    const asking = (this.#asking = new AbortController());
    const timer = setTimeout(() => asking.abort(), PROBE_MS);
    const silence = new Promise<boolean>((resolve) => asking.signal.addEventListener("abort", () => resolve(false)));
    const ask = this.#options.isUnauthorized ?? ((token) => refusesToken(this.#options.url, token, asking.signal));
    // It may throw at once, too.
    const answer = (async () => ask(token))().catch((error: unknown) => {
      if (CountersignError.is(error, "forbidden") || CountersignError.is(error, "not_found")) this.#tellWhy(error);
      return false;
    });
    return Promise.race([answer, silence]).finally(() => {
      clearTimeout(timer);
      // Browsers open few connections to a server: unanswered questions would use them up.
      asking.abort();
    });
  }

  #tellWhy({ code, message }: WhyNot): void {
    if (this.#toldWhy || this.#state !== "reconnecting") return;
    this.#toldWhy = true;
    this.emit("error", { type: "error", code, message });
  }

  #drop(): void {
    clearTimeout(this.#helloTimer);
    clearInterval(this.#beatTimer);
    const socket = this.#socket;
    this.#socket = undefined;
    this.#ready = false;
    this.#caughtUp = false;
    this.#greetedAt = undefined;
    this.#inFlight.clear();
    // The next connection follows them all.
    for (const followed of this.#followed.values()) this.#notAgain(followed);
    // And sends all queued requests.
    for (const pending of this.#outbox.values()) this.#notSoon(pending);
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #beat(seconds: number): void {
    clearInterval(this.#beatTimer);
    if (!(seconds > 0)) return;
    this.#beatTimer = setInterval(() => {
      const unsent = this.#socket?.bufferedAmount ?? 0;
      // Counted by pings, not by the clock: the timers of a hidden tab may fire a minute late.
      if (!this.#heardSincePing) {
        const before = this.#ahead;
        this.#ahead = Math.max(0, unsent - this.#given);
        // The ping is still behind a large request, some of which has been sent.
        if (this.#ahead < before) return;
        return void this.#lost(true);
      }
      this.#heardSincePing = false;
      this.#ahead = unsent;
      this.#given = 0;
      this.#send({ type: "ping" });
    }, Math.min(seconds * 1000, LONGEST_TIMER_MS));
  }

  #transmit(text: string): void {
    const socket = this.#socket;
    if (!socket) return;
    const before = socket.bufferedAmount ?? 0;
    socket.send(text);
    this.#given += (socket.bufferedAmount ?? 0) - before;
  }

  #setState(state: ConnectionState): void {
    if (this.#state === state) return;
    this.#state = state;
    this.emit("state", state);
  }

  // -------------------------------------------------------------- frames

  /** Sends a frame that nobody awaits: nothing in it can be wrong but the session's id. */
  #send(command: SubscribeCommand | UnsubscribeCommand | PingCommand): void {
    let text: string;
    try {
      text = frameOf(command);
    } catch (error) {
      const about = "session_id" in command ? { session_id: command.session_id } : {};
      return this.emit("error", { type: "error", code: "invalid_session_id", message: CountersignError.of(error).message, ...about });
    }
    this.#transmit(text);
  }

  /**
   * Sends the requests that are not on their way, in the order they were made. In a session nothing follows a request
   * until the server knows whether that is stored: the later one might be stored first.
   */
  #sendOutbox(): void {
    if (!this.#ready) return;
    const held = new Set<string>();
    for (const [requestId, pending] of this.#outbox) {
      if (held.has(pending.sessionId)) continue;
      if (pending.soon === undefined && !this.#inFlight.has(requestId)) this.#sendPending(requestId, pending);
      if (this.#unknown.has(pending)) held.add(pending.sessionId);
    }
  }

  #sendPending(requestId: string, pending: Pending): void {
    pending.sent++;
    this.#ask(requestId, pending.text);
  }

  #ask(requestId: string, text: string): void {
    this.#inFlight.add(requestId);
    this.#transmit(text);
  }

  #receive(text: string): void {
    this.#heardSincePing = true;
    const event = eventIn(text);
    if (!event) {
      const socket = this.#socket;
      this.emit("error", { type: "error", code: "bad_json", message: "A frame from the server is not an event: the connection is opened again." });
      // A listener may have connected anew.
      if (this.#socket === socket) void this.#lost(true);
      return;
    }
    if (isSessionEvent(event)) return this.#receiveSessionEvent(event);
    switch (event.type) {
      case "hello":
        return this.#welcome(event);
      case "ack":
        return this.#acknowledged(event);
      case "error":
        return this.#refused(event);
      default: // `pong`, and whatever a newer server adds
    }
  }

  #welcome(hello: HelloEvent): void {
    if (this.#ready) return this.emit("hello", hello);
    clearTimeout(this.#helloTimer);
    this.#greetedAt = Date.now();
    this.#toldWhy = false;
    this.#beat(hello.heartbeat_seconds);
    const socket = this.#socket;
    this.#compareHistory(hello.history_id);
    this.#comparePerson(hello);
    // The token may be another person's than before: a listener can close the connection before anything is sent.
    this.#setState("open");
    this.emit("hello", hello);
    if (this.#socket === socket) this.#sendWhatWaits();
  }

  /** In another history the same `seq` is another event, even if both have equally many. */
  #compareHistory(id: string | undefined): void {
    const before = this.#historyId;
    this.#historyId = id ?? before;
    if (before === undefined || id === undefined || before === id) return;
    this.emit("historyChanged", id);
    for (const [sessionId, followed] of [...this.#followed]) {
      if (followed.cursor.lastSeq > 0) this.#beginAnew(sessionId, followed);
    }
  }

  /** Requests made with another token are sent only if the server greets the same person. */
  #comparePerson({ subject, tenant }: HelloEvent): void {
    const [before, token] = [this.#greeted, this.#openedWith];
    const person = subject === undefined ? undefined : JSON.stringify([tenant, subject]);
    this.#greeted = { token, person };
    for (const [requestId, pending] of this.#outbox) {
      // Requests without a token, made before anybody signed in, wait for the first person who does.
      const same = before ? pending.token === before.token && person !== undefined && person === before.person : pending.token === undefined;
      if (same) pending.token = token;
      if (pending.token === token) continue;
      this.#takePending(requestId);
      pending.reject(new CountersignError("unauthenticated", "The token is another one now, which may be another person's."));
    }
  }

  #sendWhatWaits(): void {
    this.#ready = true;
    for (const [sessionId, followed] of this.#followed) {
      if (followed.exists) this.#follow(sessionId, followed);
    }
    this.#sendOutbox();
    // A listener may have closed it.
    this.#caughtUp = this.#ready;
  }

  #receiveSessionEvent(event: SessionEvent): void {
    const followed = this.#followed.get(event.session_id);
    // After a reply the server also sends events of sessions that are not followed here: they start in the middle, so
    // they are dropped.
    if (!followed) return;
    followed.exists = true;
    // The session exists now, made here or elsewhere.
    if (followed.missed) this.#notAgain(followed);
    followed.missed = 0;
    if (event.type === "content_block_delta") {
      if (!followed.missing && followed.cursor.takes(event)) this.emit("event", event);
      return;
    }
    if (followed.inOrder && event.seq > followed.cursor.lastSeq + 1) {
      if (!followed.missing) this.#follow(event.session_id, followed);
      followed.missing = true;
      return;
    }
    // An event that was still on its way because of a reply is not the beginning of the replay.
    if (followed.last !== undefined && followed.first !== undefined && event.seq < followed.first) {
      followed.first = event.seq;
      followed.cursor = new Cursor(0);
      this.emit("restarted", event.session_id);
    }
    followed.first ??= event.seq;
    followed.missing = false;
    followed.inOrder = true;
    if (followed.cursor.takes(event)) this.emit("event", event);
  }

  // -------------------------------------------------------------- requests

  async #request(command: Request): Promise<AckEvent> {
    // It would wait for the next person to sign in.
    if (this.#state === "unauthorized") throw new CountersignError("unauthenticated", "The server wants a token first.");
    if (this.#state === "closed") throw new CountersignError("closed", "The connection was closed.");
    const text = frameOf(command);
    if (command.type === "message") this.#expect(command.session_id!);
    return new Promise((resolve, reject) => {
      const token = this.#socket ? this.#openedWith : this.#token;
      const pending: Pending = { text, sessionId: command.session_id!, token, sent: 0, unknown: 0, resolve, reject };
      this.#outbox.set(command.request_id, pending);
      if (this.#caughtUp && this.#unknown.size === 0) return this.#sendPending(command.request_id, pending);
      // A decision may have a deadline: the requests that it waits for are sent again at once.
      if (command.type === "approval") {
        for (const unknown of this.#unknown) if (unknown.sessionId === pending.sessionId) this.#notSoon(unknown);
      }
      this.#sendOutbox();
    });
  }

  /** The server follows the session of a message for us. */
  #expect(sessionId: string): void {
    if (!this.#followed.has(sessionId)) this.#followed.set(sessionId, { cursor: new Cursor(0), inOrder: false, missing: false, exists: false });
  }

  #acknowledged(ack: AckEvent): void {
    if (ack.request_id === undefined) return;
    this.#answered(ack.request_id);
    this.#takeCancel(ack.request_id)?.resolve(ack);
    const pending = this.#takePending(ack.request_id);
    if (!pending) return;
    const followed = this.#followed.get(ack.session_id);
    if (followed && !followed.exists) {
      followed.exists = true;
      // The sender of a message follows its session from the acknowledgement on. But this message may have been stored
      // when it was sent before, on this connection or an earlier one, and nobody received the events that it has
      // caused since.
      if (pending.sent > 1) this.#follow(ack.session_id, followed);
    }
    // The server follows a session for everyone who replies in it, and a connection has limited room.
    if (!followed && this.#ready) this.#leave(ack.session_id);
    pending.resolve(ack);
    this.#sendHeldBy(pending);
  }

  #refused(event: ErrorEvent): void {
    const error = CountersignError.fromEvent(event);
    const requestId = event.request_id ?? this.#unread(event);
    if (requestId !== undefined) {
      this.#answered(requestId);
      const pending = this.#outbox.get(requestId);
      if (pending && (event.code === UNKNOWN || (pending.sent > 1 && NOT_THIS_TIME.includes(event.code)))) {
        const isFirst = pending.unknown === 0;
        this.#askSoon(pending);
        // Otherwise nobody would receive it as long as a database waits for a standby that is gone.
        if (isFirst) this.emit("error", event.code === UNKNOWN ? event : { ...event, code: UNKNOWN, message: NOT_KNOWN });
        return;
      }
      if (pending) {
        this.#takePending(requestId);
        pending.reject(error);
        return this.#sendHeldBy(pending);
      }
      const cancel = this.#takeCancel(requestId);
      if (cancel) return cancel.reject(error);
    }
    const followed = event.session_id === undefined ? undefined : this.#followed.get(event.session_id);
    if (followed && event.request_id === undefined) {
      if (event.code === NO_ROOM) followed.waits = true;
      if (FOR_NOW.includes(event.code)) this.#followAgain(event.session_id!, followed, FOLLOW_AGAIN_MS);
      // If it is followed from its beginning, nothing can be lost, and the refusal is emitted.
      if (LOST.includes(event.code) && followed.cursor.lastSeq > 0) return this.#beginAnew(event.session_id!, followed);
      if (event.code === MISSING) {
        const { missed = 0 } = followed;
        this.#followAgain(event.session_id!, followed, backoffMs(missed, MISSING_PAUSES));
        followed.missed = missed + 1;
        if (missed > 0) return;
      }
    }
    this.emit("error", event);
  }

  #beginAnew(sessionId: string, { last }: Pick<Followed, "last">): void {
    this.#followAnew(sessionId, { last });
    this.emit("restarted", sessionId);
  }

  #followAgain(sessionId: string, followed: Followed, pauseMs: number): void {
    followed.soon ??= setTimeout(() => {
      followed.soon = undefined;
      if (this.#ready && this.#followed.get(sessionId) === followed) this.#follow(sessionId, followed);
    }, pauseMs);
  }

  #notAgain(followed: Followed | undefined): void {
    clearTimeout(followed?.soon);
    if (followed) followed.soon = undefined;
  }

  #answered(requestId: string): void {
    this.#attempt = 0;
    this.#inFlight.delete(requestId);
  }

  /** The request that the server could not read, if the error is about one. */
  #unread({ code, session_id }: ErrorEvent): string | undefined {
    if (session_id !== undefined || !UNREAD.includes(code)) return undefined;
    const [first] = this.#inFlight;
    return first;
  }

  #askSoon(pending: Pending): void {
    this.#unknown.add(pending);
    clearTimeout(pending.soon);
    pending.soon = setTimeout(() => {
      pending.soon = undefined;
      this.#sendOutbox();
    }, backoffMs(pending.unknown++, UNKNOWN_PAUSES));
  }

  #notSoon(pending: Pending): void {
    clearTimeout(pending.soon);
    pending.soon = undefined;
  }

  #sendHeldBy({ unknown }: Pending): void {
    if (unknown > 0) this.#sendOutbox();
  }

  #takePending(requestId: string): Pending | undefined {
    const pending = this.#outbox.get(requestId);
    if (pending) {
      this.#notSoon(pending);
      this.#unknown.delete(pending);
    }
    this.#outbox.delete(requestId);
    return pending;
  }

  #takeCancel(requestId: string): PendingCancel | undefined {
    const cancel = this.#cancels.get(requestId);
    this.#cancels.delete(requestId);
    return cancel;
  }

  #failAll(error: Error): void {
    for (const requestId of [...this.#outbox.keys()]) this.#takePending(requestId)?.reject(error);
    this.#failCancels(error);
  }

  #failCancels(error: Error): void {
    for (const cancel of this.#cancels.values()) cancel.reject(error);
    this.#cancels.clear();
  }
}
