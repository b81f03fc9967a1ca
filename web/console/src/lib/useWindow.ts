/**
 * Which part of a long conversation is drawn: its end, and as much of what came before as somebody has scrolled up to.
 * What is drawn does not grow with the session, so one of a thousand exchanges opens like one of ten.
 */
import { useCallback, useLayoutEffect, useRef, useState, type RefObject } from "react";

/** Parts that are drawn of the end, and that come with each look further up. */
export const WINDOW = 40;
/** So near the top, earlier parts are drawn before they are reached. */
const NEAR_PX = 700;

interface Window {
  /** The first part that is drawn. */
  from: number;
  onScroll: () => void;
  earlier: () => void;
}

/** `most`: a part that has to be drawn in any case, if there is one. */
export function useWindow(area: RefObject<HTMLElement | null>, length: number, atEnd: boolean, most: number | undefined): Window {
  const [kept, setKept] = useState(0);
  // Who reads further up keeps what is drawn there, whatever comes at the end.
  const end = Math.max(0, length - WINDOW);
  const from = Math.min(atEnd ? end : kept, most ?? length);
  if (from !== kept) setKept(from);

  // What is put above must not push down what is read: its distance from the end stays.
  const below = useRef<number>(undefined);
  useLayoutEffect(() => {
    const box = area.current;
    if (!box || below.current === undefined) return;
    box.scrollTop = box.scrollHeight - below.current;
    below.current = undefined;
  }, [area, from]);

  const earlier = useCallback(() => {
    const box = area.current;
    if (box) below.current = box.scrollHeight - box.scrollTop;
    setKept((now) => Math.max(0, now - WINDOW));
  }, [area]);

  const onScroll = useCallback(() => {
    const box = area.current;
    if (box && !atEnd && from > 0 && box.scrollTop < NEAR_PX && below.current === undefined) earlier();
  }, [area, atEnd, from, earlier]);

  return { from, onScroll, earlier };
}
