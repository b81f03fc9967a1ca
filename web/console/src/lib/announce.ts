/** Announcements to screen readers, one message at a time, by the live region in `App`. */
import { Store } from "../state/store.js";

export const announcement = new Store("");

/** Simultaneous texts are announced together: each message replaces the one before it. */
export function announce(...texts: readonly string[]): void {
  const text = texts.filter(Boolean).join("; ");
  if (text === "") return;
  // The same text twice must be read twice: a trailing no-break space makes it differ.
  announcement.set((before) => (before === text ? `${text}\u00a0` : text));
}
