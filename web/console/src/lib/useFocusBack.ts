import { useEffect, useRef } from "react";

/** A control that is disabled while it works loses the focus: it gets it back afterwards, unless something else has it. */
export function useFocusBack(busy: boolean): void {
  const was = useRef(false);
  const from = useRef<Element>(null);
  // As it is before the control is drawn as disabled.
  if (busy && !was.current) from.current = document.activeElement;
  was.current = busy;
  useEffect(() => {
    if (busy) return;
    const to = from.current;
    from.current = null;
    if (document.activeElement === document.body && to instanceof HTMLElement && to.isConnected) to.focus();
  }, [busy]);
}
