/**
 * Who this tab speaks for, as far as it can tell. The server knows; this only spares people a button that it
 * would refuse.
 */
import { readTab, readTabJson, writeTab } from "../lib/storage.js";
import { subjectOfToken } from "../lib/token.js";
import { hasToken } from "./connection.js";
import { sessionList } from "./lists.js";
import { Store, useStore } from "./store.js";

/** Sessions in which the server took a message of this tab: only their own user may send one. */
const own = new Store<readonly string[]>(readTabJson<string[]>("own") ?? []);

export function noteOwn(sessionId: string): void {
  if (own.get().includes(sessionId)) return;
  own.set((ids) => [...ids, sessionId].slice(-200));
  writeTab("own", JSON.stringify(own.get()));
}

/** The subject of the token: as it says itself, or as the server writes it at this tab's own sessions. */
export function useMe(): string | undefined {
  const ids = useStore(own);
  const { rows } = useStore(sessionList);
  useStore(hasToken);
  return rows.find((row) => row.subject !== undefined && ids.includes(row.session_id))?.subject ?? subjectOfToken(readTab("token"));
}

/** Whether the session is known to be this person's own. Without tokens there is only one person. */
export function useOwns(sessionId: string): boolean {
  const ids = useStore(own);
  const me = useMe();
  const signedIn = useStore(hasToken);
  const subject = useSubject(sessionId);
  return !signedIn || ids.includes(sessionId) || (me !== undefined && me === subject);
}

/** Whose session it is. */
export function useSubject(sessionId: string): string | undefined {
  return useStore(sessionList).rows.find((row) => row.session_id === sessionId)?.subject;
}
