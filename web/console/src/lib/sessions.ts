/** The session list: what a search finds in what is loaded. */
import type { SessionSummary } from "@countersign/client";
import { folded } from "./folded.js";

/** Those in whose title or id every word is. Many sessions have the same agent, so its name finds none. */
export function searchSessions(rows: readonly SessionSummary[], text: string): readonly SessionSummary[] {
  const words = folded(text).split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const all = folded(`${row.title ?? ""}\n${row.session_id}`);
    return words.every((word) => all.includes(word));
  });
}
