/** What a session offers to this person. Apart from `me.ts`, since the first page needs none of it. */
import { agents } from "./lists.js";
import { useMe, useSubject, useSummary } from "./me.js";
import { useStore } from "./store.js";

/** Whether the session is known to be somebody else's: only its owner writes in it, stops it and continues it. */
export function useIsForeign(sessionId: string): boolean {
  const { name } = useMe();
  const subject = useSubject(sessionId);
  return name !== undefined && subject !== undefined && name !== subject;
}

/**
 * Whether anybody can write in a session, as far as is known: one that runs a graph takes answers only, and the agent of
 * another may be on this server no longer.
 */
export function useTakesMessages(sessionId: string): boolean {
  const list = useStore(agents);
  const name = useSummary(sessionId)?.agent;
  return list === undefined || name === undefined || list.some((agent) => agent.name === name);
}
