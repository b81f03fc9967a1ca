/** The sessions that a page shows, each as the fold of its events. */
import {
  CountersignError,
  emptySession,
  foldAll,
  withEarlier,
  type CountersignClient,
  type CountersignHttp,
  type ErrorEvent,
  type SessionEvent,
  type SessionView,
} from "@countersign/client";

/** A session as it is known here. */
export interface SessionSnapshot {
  view: SessionView;
  /** Whether there is no session with this id, or this person may not see it. */
  missing: boolean;
  /** Whether it existed, and was deleted. */
  deleted: boolean;
  /** Whether nothing of it has arrived yet, so it is not known whether it is empty. */
  loading: boolean;
  /** Why it cannot be followed at present; absent once it is followed. */
  error: CountersignError | undefined;
}

/** The snapshot before anything has arrived. */
export const nothingOf = (id: string): SessionSnapshot => ({ view: emptySession(id), missing: false, deleted: false, loading: true, error: undefined });

interface Opened {
  now: SessionSnapshot;
  listeners: Set<() => void>;
  /** How many components follow it. */
  followers: number;
  /** The connection follows it. */
  followed: boolean;
  /** The reading of earlier events, if it is under way. */
  reading?: Promise<void>;
  /** Where to ask whether it is empty. */
  http?: CountersignHttp | undefined;
}

/**
 * Events are folded once per frame: a fast stream must not render more often than the screen. While a long past
 * arrives, of which only the end matters, it is rendered once it is complete, or every second.
 */
const MANY = 20;
const POURING = 5;
const LONGEST_MS = 1000;

/** No frame is waited for longer: an iframe that is out of view gets none, although its page is not hidden. */
const FRAME_MS = 100;

/** The minimum number of messages read from a session's end, and with each look further up: turns are read whole. */
const MESSAGES = 80;

/** The longest wait for the next of the earlier ones: a stalled network would never end it. */
const EARLIER_MS = 60_000;

/** For how many sessions that nobody follows the view is kept, and how many missing ones are remembered. */
const KEPT = 20;

/**
 * An empty or unchanged session sends no events: after this time the server is asked whether it is empty, and one that
 * was refused counts as followed.
 */
const SILENT_MS = 1000;

const MISSING: readonly string[] = ["session_not_found", "forbidden", "invalid_session_id"] satisfies ErrorEvent["code"][];

export class Sessions {
  readonly #client: CountersignClient;
  /** The most recently followed ones come last. */
  readonly #opened = new Map<string, Opened>();
  /**
   * Snapshots that were only read, as when a page is rendered on a server: each stays the same object if it is read
   * again soon.
   */
  readonly #read = new Map<string, SessionSnapshot>();
  #queue: SessionEvent[] = [];

  constructor(client: CountersignClient) {
    this.#client = client;
    client.on("event", (event) => this.#queued(event));
    client.on("historyChanged", () => {
      for (const [id, { followed }] of this.#opened) if (!followed) this.#set(id, nothingOf(id));
    });
    client.on("hello", () => {
      for (const [id, session] of this.#opened) this.#lookSoon(id, session);
    });
    client.on("follows", (id) => this.#forgiveSoon(id));
    client.on("restarted", (id) => {
      this.#queue = this.#queue.filter((event) => event.session_id !== id);
      this.#set(id, nothingOf(id));
    });
    client.on("error", (event) => {
      const { code, session_id: id, request_id } = event;
      // A request that is sent again says nothing about following its session.
      const isSentAgain = code === "outcome_unknown" && request_id !== undefined;
      if (id === undefined || isSentAgain) return;
      if (code === "session_deleted") return this.deleted(id);
      const missing = MISSING.includes(code) && this.get(id).view.lastSeq === 0;
      this.#set(id, missing ? { missing, loading: false, error: undefined } : { error: CountersignError.fromEvent(event) });
      this.#forgetUnknown(id);
    });
  }

  /** It stays the same object until something changes. Nothing is kept of a session that nobody watches. */
  get(id: string): SessionSnapshot {
    const now = this.#opened.get(id)?.now ?? this.#read.get(id);
    if (now) return now;
    const empty = nothingOf(id);
    this.#read.set(id, empty);
    const [oldest] = this.#read.keys();
    if (this.#read.size > KEPT) this.#read.delete(oldest!);
    return empty;
  }

  /** Be told when it changes; returns how to stop. */
  watch(id: string, listener: () => void): () => void {
    const { listeners } = this.#open(id);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      this.#forgetUnknown(id);
    };
  }

  /**
   * Follow it from the last known event, at first from near its end, until nobody does any more; returns how to stop.
   * An empty session sends no events: only with `http` is it known then that it is loaded.
   */
  follow(id: string, http?: CountersignHttp): () => void {
    const session = this.#open(id);
    session.followers++;
    session.http ??= http;
    if (!session.followed) {
      if (session.now.error) this.#set(id, { error: undefined });
      this.#client.subscribe(id, { last: MESSAGES, after: session.now.view.lastSeq });
    }
    session.followed = true;
    this.#lookSoon(id, session);
    return () => {
      if (--session.followers > 0) return;
      session.followed = false;
      this.#client.unsubscribe(id);
      this.#opened.delete(id);
      this.#opened.set(id, session);
      this.#forgetOldest();
      this.#forgetUnknown(id);
    };
  }

  #lookSoon(id: string, session: Opened): void {
    const { http } = session;
    const silent = () => session.followed && session.now.loading && this.#client.state === "open" && this.#opened.get(id) === session;
    if (!http || !silent()) return;
    setTimeout(async () => {
      const there = silent() ? await http.session(id).catch(() => undefined) : undefined;
      // Any other session sends its events.
      if (there?.status === "idle" && silent()) this.#set(id, { loading: false });
    }, SILENT_MS);
  }

  /** A refused session is followed now unless it is refused again: if nothing has happened since, no event says so. */
  #forgiveSoon(id: string): void {
    const error = this.#opened.get(id)?.now.error;
    if (!error) return;
    setTimeout(() => {
      if (this.#opened.get(id)?.now.error === error && this.#client.state === "open") this.#set(id, { error: undefined });
    }, SILENT_MS);
  }

  #forgetOldest(): void {
    const left = [...this.#opened].filter(([, { followed, reading, now }]) => !followed && !reading && now.view.lastSeq > 0);
    for (const [id, { listeners }] of left.slice(0, Math.max(0, left.length - KEPT))) {
      if (listeners.size > 0) this.#set(id, nothingOf(id));
      else this.#opened.delete(id);
    }
  }

  /** A page may show many sessions that turn out to be unknown or missing. */
  #forgetUnknown(id: string): void {
    const isLeft = ({ listeners, followed, reading, now }: Opened) => listeners.size === 0 && !followed && !reading && now.view.lastSeq === 0;
    const session = this.#opened.get(id);
    if (!session || !isLeft(session)) return;
    if (!session.now.missing && !session.now.deleted) this.#opened.delete(id);
    const left = [...this.#opened].filter(([, one]) => isLeft(one));
    for (const [oldest] of left.slice(0, Math.max(0, left.length - KEPT))) this.#opened.delete(oldest);
  }

  /** Read more of the earlier events, if there are any; once, however often it is requested meanwhile. */
  loadEarlier(id: string, http: CountersignHttp): Promise<void> {
    const session = this.#open(id);
    session.reading ??= this.#readEarlier(id, http).finally(() => {
      session.reading = undefined;
      this.#forgetUnknown(id);
    });
    return session.reading;
  }

  async #readEarlier(id: string, http: CountersignHttp): Promise<void> {
    const before = this.get(id).view.firstSeq;
    if (before === undefined) return;
    const events: SessionEvent[] = [];
    // A slow network may take longer for all of them: with one limit for all they could never be read.
    const stalled = new AbortController();
    const wait = () => setTimeout(() => stalled.abort(new DOMException("nothing came", "TimeoutError")), EARLIER_MS);
    let timer = wait();
    try {
      for await (const event of http.events(id, { last: MESSAGES, before, signal: stalled.signal })) {
        events.push(event);
        clearTimeout(timer);
        timer = wait();
      }
    } finally {
      clearTimeout(timer);
    }
    // Its view may have started over meanwhile.
    if (this.get(id).deleted || this.get(id).view.firstSeq !== before) return;
    this.#set(id, { view: withEarlier(this.get(id).view, foldAll(emptySession(id), events)) });
  }

  /** The connection is sending its first message, and therefore follows it. */
  begun(id: string): void {
    this.#open(id).followed = true;
  }

  /** It was deleted: nothing of it stays on the page. */
  deleted(id: string): void {
    this.#queue = this.#queue.filter((event) => event.session_id !== id);
    this.#set(id, { view: emptySession(id), deleted: true, loading: false, error: undefined });
    this.#forgetUnknown(id);
  }

  #open(id: string): Opened {
    let session = this.#opened.get(id);
    if (!session) {
      session = { now: this.get(id), listeners: new Set(), followers: 0, followed: false };
      this.#read.delete(id);
      this.#opened.set(id, session);
    }
    return session;
  }

  #set(id: string, change: Partial<SessionSnapshot>): void {
    const session = this.#open(id);
    session.now = { ...session.now, ...change };
    for (const listener of [...session.listeners]) listener();
  }

  #queued(event: SessionEvent): void {
    if (this.#queue.push(event) > 1) return;
    // A hidden tab gets no animation frames, but must keep up all the same.
    if (globalThis.document?.hidden !== false) return void setTimeout(this.#flush, 50);
    document.addEventListener("visibilitychange", this.#flush);
    nextFrame((now) => this.#frame(now, now, 0));
  }

  #frame(now: number, since: number, before: number): void {
    const { length } = this.#queue;
    const pours = length >= MANY && length - before >= POURING && now - since < LONGEST_MS;
    if (!pours) return this.#flush();
    nextFrame((next) => this.#frame(next, since, length));
  }

  readonly #flush = (): void => {
    globalThis.document?.removeEventListener("visibilitychange", this.#flush);
    const events = new Map<string, SessionEvent[]>();
    for (const event of this.#queue.splice(0)) {
      const list = events.get(event.session_id);
      if (list) list.push(event);
      else if (this.#opened.get(event.session_id)?.followed) events.set(event.session_id, [event]);
    }
    for (const [id, list] of events) this.#set(id, { missing: false, loading: false, error: undefined, view: foldAll(this.get(id).view, list) });
  };
}

/** At the next frame, or after `FRAME_MS` without one. */
function nextFrame(draw: (now: number) => void): void {
  const frame = requestAnimationFrame((now) => {
    clearTimeout(timer);
    draw(now);
  });
  const timer = setTimeout(() => {
    cancelAnimationFrame(frame);
    draw(performance.now());
  }, FRAME_MS);
}

const known = new WeakMap<CountersignClient, Sessions>();

/** The sessions of a connection. */
export function sessionsOf(client: CountersignClient): Sessions {
  let sessions = known.get(client);
  if (!sessions) known.set(client, (sessions = new Sessions(client)));
  return sessions;
}
