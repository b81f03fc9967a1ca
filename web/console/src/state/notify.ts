/**
 * Notifications of the browser, for people who turn them on: when a request appears that this person may decide while the page
 * is out of sight. They show on locked screens and in histories, so they hold no arguments and no texts of the agent.
 */
import { isAnswered, type ListedApproval } from "@countersign/client";
import { visibleText } from "@countersign/react";
import type { Translate } from "../i18n/index.js";
import { everything, inboxHref } from "../lib/inbox.js";
import { readLocal, writeLocal } from "../lib/storage.js";
import { watchMine } from "./me.js";
import { Store } from "./store.js";

/** `denied`: asked for, but the browser does not allow it. */
type Notifying = "on" | "off" | "denied" | "unsupported";

const KEY = "notify";

/** Whether this page can notify, as far as that is known. */
let canNotify = mayNotify();

function mayNotify(): boolean {
  if (typeof Notification === "undefined" || !isSecureContext) return false;
  try {
    // Not shown without permission. Phones let only service workers notify: they must not promise anything.
    if (Notification.permission !== "granted") new Notification("");
    return true;
  } catch {
    return false;
  }
}

function stored(): Notifying {
  if (!canNotify) return "unsupported";
  if (readLocal(KEY) !== "on") return "off";
  return Notification.permission === "granted" ? "on" : "denied";
}

export const notifying = new Store<Notifying>(stored());

// Another tab of this browser.
window.addEventListener("storage", () => notifying.set(stored()));

/** Only a click may ask the browser for it. */
export async function setNotifying(on: boolean): Promise<void> {
  if (on && Notification.permission === "default") await Notification.requestPermission();
  writeLocal(KEY, on ? "on" : null);
  notifying.set(stored());
}

/** Up to this many new requests get a notification each; for more, one says how many. */
const FEW = 3;

/** The notifications shown, and the requests that each is about. */
const shown = new Map<Notification, string[]>();

const keysOf = (rows: readonly ListedApproval[]) => rows.map((row) => row.approvalKey);

/** Begin to watch. `t` is called for texts when there is something to say. */
export function startNotifying(t: Translate): () => void {
  /** This person's requests when the inbox was last read. */
  let mineBefore: string[] | undefined;
  let before: string[] = [];
  let partly = false;
  return watchMine((mine, { requests, hasMore }) => {
    const [now, all] = [keysOf(mine), keysOf(requests)];
    for (const [notification, keys] of shown) {
      if (keys.some((key) => now.includes(key))) continue;
      notification.close();
      shown.delete(notification);
    }
    // If not all were read before, those below that may have been pending for long.
    const below = partly ? all.slice(all.findLastIndex((key) => before.includes(key)) + 1) : [];
    const fresh = mine.filter(({ approvalKey: key }) => mineBefore && !mineBefore.includes(key) && !below.includes(key));
    [mineBefore, before, partly] = [now, all, hasMore];
    if (document.hidden && notifying.get() === "on") notify(fresh, t);
  });
}

function notify(fresh: ListedApproval[], t: Translate): void {
  if (fresh.length > FEW) return show(fresh, t("notify.many", { n: fresh.length }));
  for (const row of fresh) {
    const { approvalKey, actions } = row;
    const asksForText = isAnswered(row);
    const [first] = actions;
    const about = [asksForText ? undefined : first?.name, first?.agent].filter((one) => one !== undefined && one !== "");
    show([row], t(asksForText ? "notify.question" : "notify.approval"), visibleText(about.join(" · ")), approvalKey);
  }
}

function show(rows: ListedApproval[], title: string, body = "", open?: string): void {
  try {
    // The same tag in every tab: the browser shows one.
    const notification = new Notification(title, { tag: open ?? "many", body, icon: "./favicon.svg" });
    notification.onclick = () => {
      window.focus();
      location.hash = inboxHref({ ...everything, open });
      notification.close();
    };
    shown.set(notification, keysOf(rows));
  } catch {
    // It was allowed once, in a browser that lets only service workers notify.
    canNotify = false;
    notifying.set(stored());
  }
}
