/** The session list: what a search finds in what is loaded. */
import type { SessionSummary } from "@countersign/client";
import { folded } from "./folded.js";

/** Those in whose title, id or agent every word is. */
export function searchSessions(rows: readonly SessionSummary[], text: string): readonly SessionSummary[] {
  const words = folded(text).split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const all = folded([row.title ?? "", row.session_id, row.agent ?? ""].join("\n"));
    return words.every((word) => all.includes(word));
  });
}
