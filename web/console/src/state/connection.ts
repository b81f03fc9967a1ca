/** The one connection of this tab, and the token it uses. */
import { CountersignClient, CountersignError, CountersignHttp } from "@countersign/client";
import { forgetVotes } from "@countersign/react";
import { forgetTab, readTab, writeLocal, writeTab } from "../lib/storage.js";
import { Store } from "./store.js";

const base = new URL("./", document.baseURI);

let token = readTab("token") ?? undefined;

/** A token was given and the server did not accept it. */
export const tokenRefused = new Store(false);
/** The token was good until a moment ago; the server's reason. */
export const tokenEnded = new Store<string | undefined>(undefined);
export const hasToken = new Store(token !== undefined);

export const http = new CountersignHttp({ baseUrl: base.href.replace(/\/$/, ""), token: () => token });

export const client = new CountersignClient({
  url: http.webSocketUrl(),
  ...(token === undefined ? {} : { token }),
  isUnauthorized: async () => {
    try {
      await http.agents();
      return false;
    } catch (error) {
      return error instanceof CountersignError && error.code === "unauthenticated";
    }
  },
});

client.on("state", (state) => {
  if (state === "unauthorized" && token !== undefined) tokenRefused.set(true);
});

/** Who used this tab last, by name: tokens end, and whoever signs in next may be somebody else. */
const PERSON = "person";

/** Drafts, texts that wait to be sent and what was put off are nobody else's to see. */
function forgetPerson(): void {
  forgetTab();
  writeTab("token", token ?? null);
  writeLocal("later", null);
}

let wasGreeted = false;
client.on("hello", ({ subject = "" }) => {
  wasGreeted = true;
  const before = readTab(PERSON);
  const another = before !== null && before !== subject;
  if (another) forgetPerson();
  writeTab(PERSON, subject);
  if (!another) return;
  // Some of it is in memory, too. Until that is gone nothing is shown, nor sent in the name of the next.
  client.close();
  location.reload();
});

client.on("tokenEnded", (reason) => {
  token = undefined;
  writeTab("token", null);
  tokenRefused.set(false);
  tokenEnded.set(reason);
});

/** The page goes, whatever is not stored yet: the next one may be somebody else's. */
let leaving = false;

export function setToken(next: string | undefined): void {
  token = next;
  writeTab("token", next ?? null);
  // Who the next token belongs to is not known yet.
  forgetVotes();
  // Whoever comes next finds nothing of the one before in memory.
  if (wasGreeted) {
    leaving = true;
    return location.reload();
  }
  hasToken.set(next !== undefined);
  tokenRefused.set(false);
  client.setToken(next);
}

export function signOut(): void {
  forgetPerson();
  setToken(undefined);
  location.reload(); // Nothing of the session stays in memory.
}

/** The server's time now, for countdowns. */
export function serverNow(): number {
  return Date.now() + http.clockOffsetMs;
}

// What is not stored yet is lost with the page: a person is asked before they leave it.
window.addEventListener("beforeunload", (event) => {
  if (client.unsent > 0 && !leaving) event.preventDefault();
});

window.addEventListener("online", () => client.retryNow());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) client.retryNow();
});
