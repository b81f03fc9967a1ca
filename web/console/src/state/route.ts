/** The address has the open view (`#/s/<id>`, `#/inbox?…`), so a reload or a link restores it. */
import { readQuery, inboxHref, type InboxQuery } from "../lib/inbox.js";
import { Store } from "./store.js";

export interface Route {
  sessionId: string | undefined;
  /** The list of standing rules. */
  rules: boolean;
  audit: boolean;
  policy: boolean;
  webhooks: boolean;
  /** The inbox, and its filters. */
  inbox: InboxQuery | undefined;
}

export const rulesHref = "#/rules";
export const auditHref = "#/audit";
export const policyHref = "#/policy";
export const webhooksHref = "#/webhooks";

function read(): Route {
  const match = /^#\/s\/([A-Za-z0-9._-]{1,128})$/.exec(location.hash);
  const inbox = /^#\/inbox(?:\?(.*))?$/.exec(location.hash);
  const { hash } = location;
  return {
    sessionId: match?.[1],
    rules: hash === rulesHref,
    audit: hash === auditHref,
    policy: hash === policyHref,
    webhooks: hash === webhooksHref,
    inbox: inbox ? readQuery(inbox[1] ?? "") : undefined,
  };
}

export const route = new Store<Route>(read());

/** The hash from which `route` was read. */
let followed = location.hash;

function follow(): void {
  followed = location.hash;
  route.set(read());
}

window.addEventListener("hashchange", follow);

/** The open part of the inbox, if any. After a click on a link the address has changed, and its event comes later. */
export function inboxNow(): InboxQuery | undefined {
  if (location.hash !== followed) follow();
  return route.get().inbox;
}

export const sessionHref = (id: string) => `#/s/${id}`;
export const newHref = "#/";

export function openSession(id: string): void {
  location.hash = sessionHref(id);
}

/** Another part of the inbox. `step`: "back" leads to the one before. */
export function showInbox(query: InboxQuery, step: boolean): void {
  const href = inboxHref(query);
  try {
    if (step) history.pushState(null, "", href);
    else history.replaceState(null, "", href);
  } catch {
    // Fast typing changes the address more often than some browsers allow; the page follows all the same.
  }
  followed = location.hash;
  route.set({ sessionId: undefined, rules: false, audit: false, policy: false, webhooks: false, inbox: query });
}
