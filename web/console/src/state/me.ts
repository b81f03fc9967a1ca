/**
 * Who this tab speaks for, as the server said when it connected. What that person may do is the server's to say; this
 * only spares people a button that it would refuse.
 */
import { client } from "./connection.js";
import { sessionList, waiting } from "./lists.js";
import { Store, useStore } from "./store.js";

/** The name; undefined where nobody has to say who they are, and before the server has said it. */
const me = new Store<string | undefined>(undefined);

client.on("hello", (hello) => me.set(hello.subject));

export function useMe(): string | undefined {
  return useStore(me);
}

/** Whether the session is known to be this person's own. Without tokens there is only one person. */
export function useOwns(sessionId: string): boolean {
  const name = useMe();
  const subject = useSubject(sessionId);
  return name === undefined || name === subject;
}

/** Whose session it is. */
export function useSubject(sessionId: string): string | undefined {
  return useStore(sessionList).rows.find((row) => row.session_id === sessionId)?.subject;
}

/** How many requests wait, as a badge shows it; nothing where none do. */
export function useWaits(): string | undefined {
  const { rows, more } = useStore(waiting);
  return rows.length === 0 ? undefined : more ? `${rows.length}+` : String(rows.length);
}
