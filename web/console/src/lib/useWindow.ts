/**
 * The part of a long conversation that is rendered: its end, and as much of the rest as the person has scrolled up to.
 * It does not grow with the session, so one of a thousand exchanges opens like one of ten.
 *
 * Only the end is read at first: more is requested when nearly all loaded parts are rendered.
 */
import { useCallback, useLayoutEffect, useRef, useState, type RefObject } from "react";
import type { TimelinePart } from "@countersign/client";

/** How many parts are rendered at the end, and added with each look further up. */
export const WINDOW = 40;
/** This near the top, earlier parts are rendered before they are reached. */
const NEAR_PX = 700;

interface Window {
  /** The first part that is rendered. */
  from: number;
  /** Takes whether the end is in sight now: `atEnd` is of the last drawing, and one step can lead from the end to the top. */
  onScroll: (near: boolean) => void;
  earlier: () => void;
}

interface Parts {
  /** The loaded parts of the conversation. */
  parts: readonly Pick<TimelinePart, "key">[];
  atEnd: boolean;
  /** A part that has to be rendered in any case, if there is one. */
  most: number | undefined;
  /** Requests earlier parts, if there are any; returns whether they arrived. */
  more: (() => Promise<boolean>) | undefined;
}

export function useWindow(area: RefObject<HTMLElement | null>, { parts, atEnd, most, more }: Parts): Window {
  const [kept, setKept] = useState(0);
  const first = parts[0]?.key;
  const last = parts.at(-1)?.key;
  const [known, setKnown] = useState({ first, last });
  // If everything rendered fits, a person can look further up without leaving the end.
  const [up, setUp] = useState(false);
  const [wasAtEnd, setWasAtEnd] = useState(atEnd);
  if (wasAtEnd !== atEnd) {
    setWasAtEnd(atEnd);
    if (atEnd) setUp(false);
  }
  // The rendered part shrinks only when something arrives at the end while the person is there: a person reading
  // further up keeps it, and so does one at the end while the page finds its size.
  let from = kept;
  if (first !== known.first || last !== known.last) {
    setKnown({ first, last });
    if (first !== known.first) from += Math.max(0, parts.findIndex(({ key }) => key === known.first));
    if (last !== known.last && atEnd && !up) from = parts.length;
  }
  from = Math.min(from, Math.max(0, parts.length - WINDOW), most ?? parts.length);
  if (from !== kept) setKept(from);

  // Parts inserted above must not push down the text being read: its distance from the end stays.
  const below = useRef<number>(undefined);
  useLayoutEffect(() => {
    const box = area.current;
    if (!box || below.current === undefined) return;
    box.scrollTop = box.scrollHeight - below.current;
    below.current = undefined;
  }, [area, from]);

  /** Whether the person waits for parts that are not loaded yet. */
  const asked = useRef(false);
  const failed = useRef(false);
  const earlier = useCallback(() => {
    if (from <= WINDOW) void more?.().then((came) => (failed.current = !came));
    asked.current = from === 0;
    const box = area.current;
    setUp(true);
    if (from === 0) return;
    if (box) below.current = box.scrollHeight - box.scrollTop;
    setKept(Math.max(0, from - WINDOW));
  }, [area, from, more]);

  const onScroll = useCallback((near: boolean) => {
    const box = area.current;
    // A failed request is repeated when the person asks for it, not with each step of a wheel.
    if (box && !near && (from > 0 || !failed.current) && box.scrollTop < NEAR_PX && below.current === undefined) earlier();
  }, [area, earlier, from]);

  // A person who waits for it need not ask again.
  useLayoutEffect(() => {
    if (asked.current) earlier();
  }, [first]);

  return { from, onScroll, earlier };
}
