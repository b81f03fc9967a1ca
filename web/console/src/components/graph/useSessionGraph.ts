import { useEffect, useRef, useState } from "react";
import type { SessionGraph, SessionView } from "@countersign/client";
import { askAgain, useAttempt } from "../../state/again.js";
import { http } from "../../state/connection.js";

/** The shortest time between two readings, in ms: a turn may pass through many nodes at once. */
const PAUSE = 200;

/** Changes whenever the session may be at another node. Streamed text does not change it. */
export function whereabouts(view: SessionView): string {
  const last = view.messages.at(-1);
  const waiting = Object.values(view.approvals).filter((a) => a.resolution === undefined).length;
  return [view.status, view.messages.length, last?.blocks.length, last?.blocks.filter((b) => b.open).length, waiting].join();
}

/**
 * The session's graph with its current node, read again whenever that may have changed or could not be read; never while
 * nothing happens.
 */
export function useSessionGraph(view: SessionView): { graph: SessionGraph | undefined; failed: boolean } {
  const { sessionId } = view;
  const [graph, setGraph] = useState<SessionGraph>();
  const [failed, setFailed] = useState(false);
  const attempt = useAttempt();
  const where = whereabouts(view);
  const known = view.lastSeq > 0;
  const looked = useRef(0);
  const begun = useRef(0);

  useEffect(() => {
    // In a session that starts over the numbers begin again: no later answer would count beside the graph of before.
    if (!known) {
      begun.current++;
      setGraph(undefined);
    }
    if (attempt === undefined || !known) return;
    let gone = false;
    const look = async () => {
      looked.current = Date.now();
      const asked = begun.current;
      try {
        const next = await http.sessionGraph(sessionId);
        if (asked !== begun.current) return;
        // An overtaken answer has nothing new.
        setGraph((before) => (before && before.session_id === sessionId && before.seq > next.seq ? before : next));
        if (!gone) setFailed(false);
      } catch (error) {
        if (gone) return;
        setFailed(true);
        askAgain(error);
      }
    };
    const timer = setTimeout(() => void look(), Math.max(20, looked.current + PAUSE - Date.now()));
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [sessionId, where, attempt, known]);

  return { graph, failed };
}
