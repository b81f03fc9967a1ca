/** The session list: searching the loaded sessions. */
import type { SessionSummary } from "@countersign/client";
import { folded } from "./folded.js";

/**
 * The sessions whose title or id contains every word. Many sessions have the same agent, so its name is not searched.
 */
export function searchSessions(rows: readonly SessionSummary[], text: string): readonly SessionSummary[] {
  const words = folded(text).split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const all = folded(`${row.title ?? ""}\n${row.session_id}`);
    return words.every((word) => all.includes(word));
  });
}
