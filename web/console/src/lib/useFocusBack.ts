import { useEffect, useRef } from "react";

/**
 * A control that is disabled while it works loses the focus: this gives it back afterwards, unless something else has
 * it.
 */
export function useFocusBack(busy: boolean): void {
  const was = useRef(false);
  const from = useRef<Element>(null);
  // Read before the control is rendered as disabled.
  if (busy && !was.current) from.current = document.activeElement;
  was.current = busy;
  useEffect(() => {
    if (busy) return;
    const to = from.current;
    from.current = null;
    if (document.activeElement === document.body && to instanceof HTMLElement && to.isConnected) to.focus();
  }, [busy]);
}
