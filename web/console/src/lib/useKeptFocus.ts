import { useEffect, useRef, type FocusEvent, type RefObject } from "react";

/** For a part of the page whose controls come and go: if the focused one is gone, the part itself takes the focus. */
export function useKeptFocus<E extends HTMLElement>(): {
  ref: RefObject<E | null>;
  tabIndex: -1;
  onFocus: (e: FocusEvent) => void;
  onBlur: () => void;
} {
  const ref = useRef<E>(null);
  const focused = useRef<Element>(undefined);
  useEffect(() => {
    const isLost = focused.current?.isConnected === false && document.activeElement === document.body;
    if (isLost) ref.current?.focus();
    // A dialog that closes gives the focus back without an event.
    const now = document.activeElement;
    focused.current = now && ref.current?.contains(now) ? now : undefined;
  });
  return {
    ref,
    tabIndex: -1,
    onFocus: (e) => (focused.current = e.target),
    onBlur: () => (focused.current = undefined),
  };
}
