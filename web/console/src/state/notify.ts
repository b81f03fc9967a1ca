/**
 * Notifications of the browser, for those who ask for them: when a request appears that this person may decide while the page is
 * out of sight. They show on locked screens and in histories, so they hold no arguments and no texts of the agent.
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

function stored(): Notifying {
  if (typeof Notification === "undefined" || !isSecureContext) return "unsupported";
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

/** Those that are shown, by the request's key. */
const shown = new Map<string, Notification>();
/** What was pending when the inbox was last looked at; nothing before it was read for the first time. */
let known: ReadonlySet<string> | undefined;

/** Begin to watch. `t` is asked for texts when there is something to say. */
export function startNotifying(t: Translate): () => void {
  return watchMine((mine) => {
    const now = new Set(mine.map((row) => row.approvalKey));
    for (const [key, notification] of shown) {
      if (now.has(key)) continue;
      notification.close();
      shown.delete(key);
    }
    const fresh = mine.filter((row) => known !== undefined && !known.has(row.approvalKey));
    known = now;
    if (document.hidden && notifying.get() === "on") for (const row of fresh) notify(row, t);
  });
}

function notify(row: ListedApproval, t: Translate): void {
  const { approvalKey: key, actions } = row;
  const asksForText = isAnswered(row);
  const [first] = actions;
  const about = [asksForText ? undefined : first?.name, first?.agent].filter((one) => one !== undefined && one !== "");
  try {
    // The same tag in every tab: the browser shows one.
    const notification = new Notification(t(asksForText ? "notify.question" : "notify.approval"), {
      tag: key,
      body: visibleText(about.join(" · ")),
      icon: "./favicon.svg",
    });
    notification.onclick = () => {
      window.focus();
      location.hash = inboxHref({ ...everything, open: key });
      notification.close();
    };
    shown.set(key, notification);
  } catch {
    // Some browsers let only service workers notify.
    notifying.set("unsupported");
  }
}
