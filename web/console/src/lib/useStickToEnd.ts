/**
 * Keeps a scrolled area at its end while content arrives, unless the reader has scrolled up.
 *
 * A pending request is different: it is read from its top, so of a card taller than the area the top is shown, and
 * nothing scrolls any further until it is decided.
 */
import { useCallback, useLayoutEffect, useRef, useState } from "react";

const NEAR_PX = 48;

export function useStickToEnd(content: unknown[], waitingElementId: string | undefined) {
  const ref = useRef<HTMLDivElement>(null);
  const stick = useRef(true);
  const shown = useRef<string>(undefined);
  const [atEnd, setAtEnd] = useState(true);

  useLayoutEffect(() => {
    const area = ref.current;
    if (!area) return;
    const target = endOf(area, waitingElementId);
    // A person who has scrolled to the lower part of a card is not taken back to its top by others' comments.
    const below = waitingElementId !== undefined && shown.current === waitingElementId && target < area.scrollTop;
    if (stick.current && !below) area.scrollTop = target;
    shown.current = waitingElementId;
    setAtEnd(isNearEnd(area));
  }, [...content, waitingElementId]);

  /** Gives whether the end is in sight. */
  const onScroll = useCallback((): boolean => {
    const area = ref.current;
    if (!area) return true;
    const near = isNearEnd(area);
    stick.current = near || Math.abs(area.scrollTop - endOf(area, waitingElementId)) < 2;
    setAtEnd(near);
    return near;
  }, [waitingElementId]);

  const toEnd = useCallback(() => {
    stick.current = true;
    ref.current?.scrollTo({ top: ref.current.scrollHeight, behavior: "smooth" });
  }, []);

  return { ref, onScroll, atEnd, toEnd };
}

function isNearEnd(area: HTMLElement): boolean {
  return area.scrollHeight - area.scrollTop - area.clientHeight < NEAR_PX;
}

function endOf(area: HTMLElement, waitingElementId: string | undefined): number {
  const end = area.scrollHeight - area.clientHeight;
  const card = waitingElementId === undefined ? null : document.getElementById(waitingElementId);
  if (!card) return end;
  const top = card.getBoundingClientRect().top - area.getBoundingClientRect().top + area.scrollTop - 14;
  return Math.min(end, top);
}
