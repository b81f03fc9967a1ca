/** The pending requests, across sessions: read once for all components of a page that show them. */
import { CountersignError, type ApprovalQuery, type ConnectionState, type CountersignClient, type CountersignHttp, type ListedApproval, type SessionEvent } from "@countersign/client";

/** Filters, and the rows of a page. */
export type InboxQuery = Omit<ApprovalQuery, "status" | "cursor">;

export interface InboxState {
  /** The soonest deadline first. A request that has not changed since the last reading is the same object. */
  requests: ListedApproval[];
  /** Whether the first reading has neither succeeded nor failed yet. */
  loading: boolean;
  /**
   * Why the newest reading failed, if it did, or why nothing is read any more; the requests are those of the previous
   * one.
   */
  error: unknown;
  /** Whether there may be more: with filters, the rest can turn out to have none. */
  hasMore: boolean;
}

/** Before it has been read. */
export const UNREAD: InboxState = { requests: [], loading: true, error: undefined, hasMore: false };

/** Without a token, and once the connection is closed for good, there is nothing for this page to read. */
const OVER: Partial<Record<ConnectionState, () => CountersignError>> = {
  unauthorized: () => new CountersignError("unauthenticated", "The server wants a token first."),
  closed: () => new CountersignError("closed", "The connection was closed."),
};

/** How a component wants it read. */
export interface Following {
  /** How often; 0: only when something is known to have changed. */
  everyMs: number;
  /** How many pages at first, and with each `loadMore`. */
  pages: number;
}

/** Less often if this many requests have to be read each time, while the page is hidden, and without a connection. */
const [MANY, MANY_MS] = [50, 4_000];
const HIDDEN_MS = 15_000;
const AWAY_MS = 5_000;

/** After this time without an answer it is read again: an answer that never comes must not stop the list. */
const LOST_MS = 30_000;
/** Changes seldom come alone. */
const SOON_MS = 120;

/**
 * A server looks at a bounded number of rows for a page, so with filters some pages are empty: this many in a row count
 * as one page.
 */
const EMPTY = 5;

const CHANGES: readonly SessionEvent["type"][] = ["run_status", "approval_resolved", "approval_updated"];

/** The result of a reading, and its number of pages. */
interface Found {
  requests: ListedApproval[];
  hasMore: boolean;
  pages: number;
}

/** Counts how often any was asked for, or left. */
let uses = 0;

export class SharedInbox {
  readonly http: CountersignHttp;
  readonly #client: CountersignClient;
  readonly #query: InboxQuery;
  #state = UNREAD;
  /** All requests that it has had, as they were rendered. */
  readonly #had = new WeakSet<ListedApproval>();
  readonly #listeners = new Set<() => void>();
  readonly #followers = new Set<Following>();
  readonly #along = new Set<() => void>();
  /** How many pages are shown, and how many were requested with `loadMore`. */
  #pages = 0;
  #wanted = 0;
  #more: Promise<void> | undefined;
  /** The reading that was begun last, and the one whose answer is shown. */
  #begun = 0;
  #shown = 0;
  /** The controllers of unanswered readings: the newest, and at most the one before it. */
  readonly #open = new Map<number, AbortController>();
  /** Something has changed since the reading began. */
  #again = false;
  /** The requests decided here, with the newest reading begun before that: its answer may still have them. */
  readonly #decided = new Map<string, number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #stop: (() => void) | undefined;
  /** Whether the reason why nothing is read any more has been reported. */
  #over = false;
  /** When it was last requested or left: the highest is the most recent. */
  used = 0;

  constructor(client: CountersignClient, http: CountersignHttp, query: InboxQuery) {
    this.#client = client;
    this.http = http;
    this.#query = query;
  }

  /** It stays the same object until something changes. */
  readonly get = (): InboxState => this.#state;

  /** Be told when it changes; returns how to stop. */
  readonly watch = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Whether this is one of its requests, or was. */
  had(request: ListedApproval): boolean {
    return this.#had.has(request);
  }

  /** Read something else whenever this is read; returns how to stop. */
  along(read: () => void): () => void {
    this.#along.add(read);
    return () => void this.#along.delete(read);
  }

  get followed(): boolean {
    return this.#followers.size > 0;
  }

  /** Keep it read until nobody follows it any more; returns how to stop. */
  follow({ everyMs, pages }: Following): () => void {
    const one = { everyMs, pages };
    const pause = this.#pause();
    this.#followers.add(one);
    if (!this.#stop) this.#start();
    // A reading that is under way reads as far as is wanted by then.
    else if (this.#state.hasMore && this.#most() > this.#pages && !this.#reading() && !this.#away()) void this.#read();
    else if (!this.#reading() && this.#pause() < pause) this.#in(this.#pause());
    return () => {
      this.#followers.delete(one);
      // A component that only changes how it is read has come back by then.
      queueMicrotask(() => this.#rest());
    };
  }

  /** Nobody looks at it any more. */
  #rest(): void {
    if (this.followed) return;
    this.#stop?.();
    this.#stop = undefined;
    this.#wanted = 0;
    this.used = ++uses;
    this.#end(Infinity);
    clearTimeout(this.#timer);
    clearTimeout(this.#soon);
  }

  /** Read the shown pages again, whatever was requested before. */
  readonly refresh = (): Promise<void> => this.#read();

  /** Read more than is shown; once, however often it is requested meanwhile. */
  readonly loadMore = (): Promise<void> => {
    if (!this.#more && this.#state.hasMore) this.#wanted = this.#pages + this.#step();
    this.#more ??= this.#read().finally(() => (this.#more = undefined));
    return this.#more;
  };

  /** How many pages its followers want at first, and with each `loadMore`. */
  #step(): number {
    return Math.max(1, ...[...this.#followers].map(({ pages }) => pages));
  }

  /** How many pages are read. */
  #most(): number {
    return Math.max(this.#wanted, this.#step());
  }

  /** Take a request that was decided here from the list before the server says so. */
  readonly forget = (approvalKey: string): void => {
    this.#decided.set(approvalKey, this.#begun);
    const requests = this.#state.requests.filter((one) => one.approvalKey !== approvalKey);
    if (requests.length < this.#state.requests.length) this.#set({ ...this.#state, requests });
    this.changed();
  };

  /** Something is known to have changed: it is read soon. */
  readonly changed = (): void => {
    clearTimeout(this.#soon);
    if (!this.followed) return;
    this.#soon = setTimeout(() => {
      if (this.#reading()) this.#again = true;
      else void this.#read();
    }, SOON_MS);
  };

  #start(): void {
    const client = this.#client;
    // A reading begun before a connection may never be answered.
    const greeted = client.on("hello", () => void this.#read());
    const over = client.on("state", this.#tellOver);
    const told = client.on("event", ({ type }) => CHANGES.includes(type) && this.changed());
    // Not at once: a return to the page may be reported twice.
    const look = () => !document.hidden && !this.#away() && this.changed();
    if (globalThis.document) {
      document.addEventListener("visibilitychange", look);
      addEventListener("focus", look);
    }
    this.#stop = () => {
      greeted();
      over();
      told();
      if (!globalThis.document) return;
      document.removeEventListener("visibilitychange", look);
      removeEventListener("focus", look);
    };
    this.#tellOver();
    if (!this.#away() && !this.#reading()) void this.#read();
    else this.#in(this.#pause());
  }

  /** Why nothing is read any more, or no longer that. */
  readonly #tellOver = (): void => {
    const error = OVER[this.#client.state]?.();
    const before = this.#over;
    this.#over = error !== undefined;
    if (error) this.#set({ ...this.#state, loading: false, error });
    else if (before) this.#set({ ...this.#state, loading: this.#shown === 0, error: undefined });
  };

  /** A connection is wanted, but missing: everything will soon be read when the server greets it. */
  #away(): boolean {
    const { state } = this.#client;
    return state === "connecting" || state === "reconnecting" || this.#isOver();
  }

  #isOver(): boolean {
    return OVER[this.#client.state] !== undefined;
  }

  /** Whether the reading that was begun last has no answer yet. */
  #reading(): boolean {
    return this.#open.has(this.#begun);
  }

  /** Aborts the readings that were begun before this one. */
  #end(before: number): void {
    for (const [turn, ends] of this.#open) {
      if (turn >= before) continue;
      this.#open.delete(turn);
      ends.abort();
    }
  }

  #pause(): number {
    const wanted = [...this.#followers].map(({ everyMs }) => everyMs).filter((ms) => ms > 0);
    if (wanted.length === 0 || this.#isOver()) return Infinity;
    const hidden = globalThis.document?.hidden ? HIDDEN_MS : 0;
    const many = this.#state.requests.length > MANY ? MANY_MS : 0;
    return Math.max(Math.min(...wanted), hidden, many, this.#away() ? AWAY_MS : 0);
  }

  /** Read it then, and not before, unless something happens. */
  #in(ms: number): void {
    clearTimeout(this.#timer);
    if (this.followed && ms < Infinity) this.#timer = setTimeout(() => void this.#read(), ms);
  }

  async #read(): Promise<void> {
    if (this.#isOver()) return;
    const turn = ++this.#begun;
    const ends = new AbortController();
    this.#open.set(turn, ends);
    this.#end(turn - 1);
    this.#again = false;
    for (const read of this.#along) read();
    try {
      const found = await this.#found(turn, ends.signal);
      // A late answer counts, too, if there is no newer one.
      if (found && turn > this.#shown) this.#show(turn, found);
    } catch (error) {
      if (turn === this.#begun && !ends.signal.aborted) this.#set({ ...this.#state, loading: false, error });
    } finally {
      this.#open.delete(turn);
      if (turn === this.#begun) this.#in(this.#again ? SOON_MS : this.#pause());
    }
  }

  /**
   * As many pages as are wanted; `undefined` if another reading has begun before they arrive, or nobody waits for them.
   */
  async #found(turn: number, signal: AbortSignal): Promise<Found | undefined> {
    const requests: ListedApproval[] = [];
    let cursor: string | undefined;
    let [pages, empty] = [0, 0];
    do {
      if (turn === this.#begun) this.#in(LOST_MS);
      const page = await this.http.pending({ ...this.#query, ...(cursor === undefined ? {} : { cursor }) }, signal);
      if (signal.aborted) return undefined;
      requests.push(...page.approvals);
      cursor = page.next;
      empty = page.approvals.length > 0 ? 0 : empty + 1;
      if (empty > 0 && empty < EMPTY && cursor !== undefined) continue;
      pages++;
      empty = 0;
    } while (cursor !== undefined && pages < this.#most() && turn === this.#begun && !this.#isOver());
    const whole = cursor === undefined || pages >= this.#most();
    return whole ? { requests, hasMore: cursor !== undefined, pages } : undefined;
  }

  #show(turn: number, { requests: found, hasMore, pages }: Found): void {
    this.#end(turn);
    this.#shown = turn;
    this.#pages = pages;
    for (const [key, before] of this.#decided) if (before < turn) this.#decided.delete(key);
    const known = new Map(this.#state.requests.map((one) => [one.approvalKey, one]));
    const requests = found
      .filter((one) => !this.#decided.has(one.approvalKey))
      .map((one) => {
        const old = known.get(one.approvalKey);
        return old && isSame(old, one) ? old : one;
      });
    for (const one of requests) this.#had.add(one);
    const before = this.#state;
    const same = requests.length === before.requests.length && requests.every((one, i) => one === before.requests[i]);
    if (same && !before.loading && before.hasMore === hasMore && before.error === undefined) return;
    this.#set({ requests: same ? before.requests : requests, loading: false, error: undefined, hasMore });
  }

  #set(state: InboxState): void {
    this.#state = state;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Every change of a pending request adds an update, except that its session is held or released. */
function isSame(old: ListedApproval, one: ListedApproval): boolean {
  const isHeldAlike = old.held?.reason === one.held?.reason && old.held?.message === one.held?.message;
  return isHeldAlike && old.digest === one.digest && old.updates.length === one.updates.length;
}

/** The same key for the same filters, in whatever order they are given. */
export const queryKey = (query: InboxQuery): string => JSON.stringify(Object.entries(query).filter(([, value]) => value !== undefined).sort());

/** For how many queries that nobody follows any more the requests are kept. */
const KEPT = 20;

const known = new WeakMap<CountersignClient, Map<string, SharedInbox>>();

/** The inbox of a connection and a query: the same for all callers. */
export function inboxOf(client: CountersignClient, http: CountersignHttp, query: InboxQuery = {}): SharedInbox {
  let inboxes = known.get(client);
  if (!inboxes) known.set(client, (inboxes = new Map()));
  const key = queryKey(query);
  let inbox = inboxes.get(key);
  if (inbox?.http !== http) {
    inboxes.set(key, (inbox = new SharedInbox(client, http, query)));
    const left = [...inboxes].filter(([, one]) => one !== inbox && !one.followed).sort(([, a], [, b]) => a.used - b.used);
    for (const [old] of left.slice(0, Math.max(0, left.length - KEPT))) inboxes.delete(old);
  }
  inbox.used = ++uses;
  return inbox;
}
