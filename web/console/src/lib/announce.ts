/** What is said to screen readers, one message at a time, by the live region in `App`. */
import { Store } from "../state/store.js";

export const announcement = new Store("");

export function announce(text: string): void {
  // The same text twice must be read twice: a trailing no-break space makes it differ.
  announcement.set((before) => (before === text ? `${text}\u00a0` : text));
}
