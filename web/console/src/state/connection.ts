/** The one connection of this tab, and the token it uses. */
import { CountersignClient, CountersignHttp, type HelloEvent } from "@countersign/client";
import { forgetVotes } from "@countersign/react";
import { forgetTab, readTab, writeLocal, writeTab } from "../lib/storage.js";
import { Store } from "./store.js";

const base = new URL("./", document.baseURI);

let token = readTab("token") ?? undefined;

/** A token was given and the server did not accept it. */
export const tokenRefused = new Store(false);
/** The token was valid until a moment ago; the server's reason. */
export const tokenEnded = new Store<string | undefined>(undefined);
export const hasToken = new Store(token !== undefined);

/** On a network that hangs no answer comes: after this time a request fails, and can be retried. */
const TIMEOUT_MS = 15_000;

export const http = new CountersignHttp({ baseUrl: base.href.replace(/\/$/, ""), token: () => token, timeoutMs: TIMEOUT_MS });

export const client = new CountersignClient({
  url: http.webSocketUrl(),
  ...(token === undefined ? {} : { token }),
});

client.on("state", (state) => {
  if (state === "unauthorized" && token !== undefined) tokenRefused.set(true);
});

/** The person who used this tab last: tokens end, and the next person to sign in may be somebody else. */
const PERSON = "person";
/**
 * The stored form: without tokens the name is empty, and nothing empty is stored. The same name is another person's in
 * another tenant.
 */
const named = ({ subject = "", tenant }: HelloEvent) => (tenant ? `@${JSON.stringify([tenant, subject])}` : `=${subject}`);

/** The name under which this browser keeps the requests that the person of this tab has put off. */
export const laterKey = () => `later${readTab(PERSON) ?? ""}`;

/** A token was given, but the server has not said yet whose it is. */
const UNKNOWN = "unknown";

/** While it is not known whether the same person has signed in again, nothing of theirs is shown. */
export const personUnknown = new Store(readTab(UNKNOWN) !== null);

/** The page is about to be reloaded for somebody else: however long that takes, it shows and sends nothing. */
export const gone = new Store(false);

function leave(forget = () => {}): void {
  gone.set(true);
  client.close();
  // After the page, which keeps what it has not sent.
  forget();
  location.reload(); // Nothing of the session stays in memory.
}

/** Nobody else may see drafts, queued texts and the requests that were put off. */
function forgetPerson(): void {
  writeLocal(laterKey(), null);
  forgetTab();
  writeTab("token", token ?? null);
}

let wasGreeted = false;
client.on("hello", (hello) => {
  wasGreeted = true;
  const [before, now] = [readTab(PERSON), named(hello)];
  if (before !== null && before !== now) {
    return leave(() => {
      forgetPerson();
      writeTab(PERSON, now);
    });
  }
  writeTab(PERSON, now);
  writeTab(UNKNOWN, null);
  personUnknown.set(false);
});

client.on("tokenEnded", (reason) => {
  token = undefined;
  writeTab("token", null);
  tokenRefused.set(false);
  tokenEnded.set(reason);
});

export function setToken(next: string): void {
  token = next;
  writeTab("token", next);
  forgetVotes();
  if (readTab(PERSON) !== null) {
    writeTab(UNKNOWN, "yes");
    personUnknown.set(true);
  }
  // The next person finds nothing of the previous one in memory.
  if (wasGreeted) return leave();
  hasToken.set(true);
  tokenRefused.set(false);
  client.setToken(next);
}

export function signOut(): void {
  token = undefined;
  leave(forgetPerson);
}

/** The server's time now, for countdowns. */
export function serverNow(): number {
  return Date.now() + http.clockOffsetMs;
}

// Requests that are not stored yet are lost with the page: a person is asked before they leave it.
window.addEventListener("beforeunload", (event) => {
  if (client.unsent > 0 && !gone.get()) event.preventDefault();
});

window.addEventListener("online", () => client.retryNow());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) client.retryNow();
});
