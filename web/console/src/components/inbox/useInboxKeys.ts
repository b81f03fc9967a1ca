/** The inbox's keys, wherever the focus is. */
import { useLayoutEffect, useRef } from "react";
import { cardId, TYPING } from "../approval/focus.js";
import { keyName, type KeyName } from "./KeyHelp.js";

/** Keys that the open card understands itself. */
const OF_CARD: readonly (KeyName | undefined)[] = ["approve", "edit", "reject"];

interface Keys {
  /** Whether single-letter keys are on. */
  on: boolean;
  /** The request that is open. */
  open: string | undefined;
  /** Whether it has just taken the place of another: a key pressed twice was meant for that one. */
  settling: boolean;
  press: (key: Exclude<KeyName, "approve" | "edit" | "reject">) => void;
}

export function useInboxKeys(keys: Keys): void {
  const latest = useRef(keys);
  latest.current = keys;
  // As soon as there is something to press them for: the list may be known before the page is rendered.
  useLayoutEffect(() => {
    const guard = (event: KeyboardEvent) => {
      if (!latest.current.settling || !OF_CARD.includes(keyName(event.key)) || isNoShortcut(event)) return;
      event.preventDefault();
      event.stopPropagation();
    };
    const onKey = (event: KeyboardEvent) => {
      const { on, open, press } = latest.current;
      const key = keyName(event.key);
      if (key === undefined || event.defaultPrevented || isForElsewhere(event)) return;
      if (!on && key !== "back") return;
      if (key === "approve" || key === "edit" || key === "reject") return tellCard(open, event);
      event.preventDefault();
      press(key);
    };
    document.addEventListener("keydown", guard, true);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("keydown", guard, true);
      document.removeEventListener("keydown", onKey);
    };
  }, []);
}

const isForElsewhere = (event: KeyboardEvent) => event.repeat || isNoShortcut(event);

/** Whether it is typed, belongs to a dialog, or is a command of the browser. */
function isNoShortcut(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return true;
  return (event.target as HTMLElement).closest(TYPING) !== null || document.querySelector("dialog[open]") !== null;
}

/** Has the card handle a key as if it had the focus. */
function tellCard(approvalKey: string | undefined, event: KeyboardEvent): void {
  const card = approvalKey === undefined ? null : document.getElementById(cardId(approvalKey));
  if (!card || card.contains(event.target as Node)) return;
  event.preventDefault();
  card.focus({ preventScroll: true });
  card.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: true, cancelable: true }));
}
