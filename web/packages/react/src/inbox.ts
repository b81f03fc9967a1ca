/** What waits for people, across sessions: read once for all of a page that look at it. */
import type { ApprovalQuery, CountersignClient, CountersignHttp, ListedApproval, SessionEvent } from "@countersign/client";

/** Filters, and the rows of a page. */
export type InboxQuery = Omit<ApprovalQuery, "status" | "cursor">;

export interface InboxState {
  /** The soonest deadline first. One that has not changed since it was read before is the same object. */
  requests: ListedApproval[];
  /** Nothing has been read yet. */
  loading: boolean;
  /** Why the newest reading failed, if it did; the requests are those of the one before. */
  error: unknown;
  /** Whether there may be more: of a list with filters the rest can turn out to have none. */
  more: boolean;
}

/** How a part of the page wants it read. */
export interface Following {
  /** How often; 0: only when something is known to have changed. */
  everyMs: number;
  /** How many pages at first, and with each `loadMore`. */
  pages: number;
}

/** Less often where so many requests have to be read each time, while the page is hidden, and without a connection. */
const [MANY, MANY_MS] = [50, 4_000];
const HIDDEN_MS = 15_000;
const AWAY_MS = 5_000;

/** Who has not been answered for so long asks again: an answer that never comes must not stop the list. */
const LOST_MS = 30_000;
/** What changes seldom changes alone. */
const SOON_MS = 120;

/** A server looks at a bounded number of rows for a page, so with filters some have no requests: so many in a row count as one page. */
const EMPTY = 5;

const CHANGES: readonly SessionEvent["type"][] = ["run_status", "approval_resolved", "approval_updated"];

export class SharedInbox {
  readonly http: CountersignHttp;
  readonly #client: CountersignClient;
  readonly #query: InboxQuery;
  #state: InboxState = { requests: [], loading: true, error: undefined, more: false };
  readonly #listeners = new Set<() => void>();
  readonly #followers = new Set<Following>();
  /** How many pages are read. */
  #pages = 1;
  /** The reading that was begun last, and the one whose answer is shown. */
  #begun = 0;
  #shown = 0;
  #reading = false;
  /** Something has changed since the reading began. */
  #again = false;
  /** What was decided here, by the reading that was begun last before: its answer may still have it. */
  readonly #decided = new Map<string, number>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #soon: ReturnType<typeof setTimeout> | undefined;
  #stop = () => {};

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

  get followed(): boolean {
    return this.#followers.size > 0;
  }

  /** Have it read, until nobody does any more; returns how to stop. */
  follow({ everyMs, pages }: Following): () => void {
    const one = { everyMs, pages };
    const [before, pause] = [this.#pages, this.#pause()];
    this.#pages = Math.max(before, pages);
    this.#followers.add(one);
    if (this.#followers.size === 1) this.#start();
    else if (this.#pages > before && !this.#away()) void this.#read();
    else if (!this.#reading && this.#pause() < pause) this.#in(this.#pause());
    return () => {
      this.#followers.delete(one);
      if (this.#followers.size > 0) return;
      this.#pages = 1;
      this.#stop();
      clearTimeout(this.#timer);
      clearTimeout(this.#soon);
    };
  }

  /** Read what is shown again, whatever was asked before. */
  readonly refresh = (): Promise<void> => this.#read();

  /** Read more of it than until now. */
  readonly loadMore = (): Promise<void> => {
    if (this.#state.more) this.#pages += Math.max(1, ...[...this.#followers].map(({ pages }) => pages));
    return this.#read();
  };

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
      if (this.#reading) this.#again = true;
      else void this.#read();
    }, SOON_MS);
  };

  #start(): void {
    const client = this.#client;
    // What was asked before a connection may never be answered.
    const greeted = client.on("hello", () => void this.#read());
    const told = client.on("event", ({ type }) => CHANGES.includes(type) && this.changed());
    // Soon: coming back may be told twice.
    const look = () => !document.hidden && !this.#away() && this.changed();
    if (globalThis.document) {
      document.addEventListener("visibilitychange", look);
      addEventListener("focus", look);
    }
    this.#stop = () => {
      greeted();
      told();
      if (!globalThis.document) return;
      document.removeEventListener("visibilitychange", look);
      removeEventListener("focus", look);
    };
    if (!this.#away() && !this.#reading) void this.#read();
    else this.#in(this.#pause());
  }

  /** A connection is wanted, and not there: whatever can be read will soon be read by who is greeted. */
  #away(): boolean {
    const { state } = this.#client;
    return state === "connecting" || state === "reconnecting" || state === "unauthorized";
  }

  #pause(): number {
    const wanted = [...this.#followers].map(({ everyMs }) => everyMs).filter((ms) => ms > 0);
    // Without a token there is nothing to read.
    if (wanted.length === 0 || this.#client.state === "unauthorized") return Infinity;
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
    const turn = ++this.#begun;
    this.#reading = true;
    this.#again = false;
    try {
      const found = await this.#found(turn);
      // An answer that came late counts, too, where there is no newer one.
      if (found && turn > this.#shown) this.#show(turn, found);
    } catch (error) {
      if (turn === this.#begun) this.#set({ ...this.#state, error });
    } finally {
      if (turn === this.#begun) {
        this.#reading = false;
        this.#in(this.#again ? SOON_MS : this.#pause());
      }
    }
  }

  /** As many pages as are wanted; nothing where another reading has begun before they have come. */
  async #found(turn: number): Promise<{ requests: ListedApproval[]; more: boolean } | undefined> {
    const requests: ListedApproval[] = [];
    let cursor: string | undefined;
    let [pages, empty] = [0, 0];
    do {
      if (turn === this.#begun) this.#in(LOST_MS);
      const page = await this.http.waiting({ ...this.#query, ...(cursor === undefined ? {} : { cursor }) });
      requests.push(...page.approvals);
      cursor = page.next;
      empty = page.approvals.length > 0 ? 0 : empty + 1;
      if (empty > 0 && empty < EMPTY && cursor !== undefined) continue;
      pages++;
      empty = 0;
    } while (cursor !== undefined && pages < this.#pages && turn === this.#begun);
    const whole = cursor === undefined || pages >= this.#pages;
    return whole ? { requests, more: cursor !== undefined } : undefined;
  }

  #show(turn: number, { requests: found, more }: { requests: ListedApproval[]; more: boolean }): void {
    this.#shown = turn;
    for (const [key, before] of this.#decided) if (before < turn) this.#decided.delete(key);
    const known = new Map(this.#state.requests.map((one) => [one.approvalKey, one]));
    const requests = found
      .filter((one) => !this.#decided.has(one.approvalKey))
      .map((one) => {
        const old = known.get(one.approvalKey);
        // Whatever changes about a request while it waits is one more update.
        return old && old.digest === one.digest && old.updates.length === one.updates.length ? old : one;
      });
    const before = this.#state;
    const same = requests.length === before.requests.length && requests.every((one, i) => one === before.requests[i]);
    if (same && !before.loading && before.more === more && before.error === undefined) return;
    this.#set({ requests: same ? before.requests : requests, loading: false, error: undefined, more });
  }

  #set(state: InboxState): void {
    this.#state = state;
    for (const listener of [...this.#listeners]) listener();
  }
}

/** Of how many queries that nobody follows any more the requests are kept. */
const KEPT = 20;

const known = new WeakMap<CountersignClient, Map<string, SharedInbox>>();

/** That of a connection and a query: the same for all who ask for it. */
export function inboxOf(client: CountersignClient, http: CountersignHttp, query: InboxQuery = {}): SharedInbox {
  let inboxes = known.get(client);
  if (!inboxes) known.set(client, (inboxes = new Map()));
  const key = JSON.stringify(query);
  let inbox = inboxes.get(key);
  if (inbox?.http !== http) {
    inboxes.set(key, (inbox = new SharedInbox(client, http, query)));
    const left = [...inboxes].filter(([, one]) => one !== inbox && !one.followed);
    for (const [old] of left.slice(0, Math.max(0, left.length - KEPT))) inboxes.delete(old);
  }
  return inbox;
}
