/**
 * Which part of a long conversation is drawn: its end, and as much of what came before as somebody has scrolled up to.
 * What is drawn does not grow with the session, so one of a thousand exchanges opens like one of ten.
 *
 * Nor is more than the end read at first: what is not there yet is asked for when nearly all that is there is drawn.
 */
import { useCallback, useLayoutEffect, useRef, useState, type RefObject } from "react";
import type { TimelinePart } from "@countersign/client";

/** Parts that are drawn of the end, and that come with each look further up. */
export const WINDOW = 40;
/** So near the top, earlier parts are drawn before they are reached. */
const NEAR_PX = 700;

interface Window {
  /** The first part that is drawn. */
  from: number;
  /** Takes whether the end is in sight now: `atEnd` is of the last drawing, and one step can lead from the end to the top. */
  onScroll: (near: boolean) => void;
  earlier: () => void;
}

interface Parts {
  /** What is there of the conversation. */
  parts: readonly Pick<TimelinePart, "key">[];
  atEnd: boolean;
  /** A part that has to be drawn in any case, if there is one. */
  most: number | undefined;
  /** Asks for what comes before, if there is more; gives whether it came. */
  more: (() => Promise<boolean>) | undefined;
}

export function useWindow(area: RefObject<HTMLElement | null>, { parts, atEnd, most, more }: Parts): Window {
  const [kept, setKept] = useState(0);
  const first = parts[0]?.key;
  const last = parts.at(-1)?.key;
  const [known, setKnown] = useState({ first, last });
  // Where all that is drawn fits, somebody can look further up without leaving the end.
  const [up, setUp] = useState(false);
  const [wasAtEnd, setWasAtEnd] = useState(atEnd);
  if (wasAtEnd !== atEnd) {
    setWasAtEnd(atEnd);
    if (atEnd) setUp(false);
  }
  // What is drawn becomes less only when something comes at the end before somebody who is there: who reads further up keeps
  // it, and so does whoever looks at the end while the page finds its size.
  let from = kept;
  if (first !== known.first || last !== known.last) {
    setKnown({ first, last });
    if (first !== known.first) from += Math.max(0, parts.findIndex(({ key }) => key === known.first));
    if (last !== known.last && atEnd && !up) from = parts.length;
  }
  from = Math.min(from, Math.max(0, parts.length - WINDOW), most ?? parts.length);
  if (from !== kept) setKept(from);

  // What is put above must not push down what is read: its distance from the end stays.
  const below = useRef<number>(undefined);
  useLayoutEffect(() => {
    const box = area.current;
    if (!box || below.current === undefined) return;
    box.scrollTop = box.scrollHeight - below.current;
    below.current = undefined;
  }, [area, from]);

  /** Somebody waits for what is not there yet. */
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
    // What has failed is tried again when somebody asks for it, not with each step of a wheel.
    if (box && !near && !failed.current && box.scrollTop < NEAR_PX && below.current === undefined) earlier();
  }, [area, earlier]);

  // Who waits for it need not ask again.
  useLayoutEffect(() => {
    if (asked.current) earlier();
  }, [first]);

  return { from, onScroll, earlier };
}
