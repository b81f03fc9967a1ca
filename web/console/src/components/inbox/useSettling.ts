import { useCallback, useEffect, useRef, useState } from "react";

/** For this long a key or a press may still have been meant for the previous request. */
const SETTLES_MS = 500;

/** Whether a request has just opened on its own, and a function that says that one has. */
export function useSettling(): [boolean, () => void] {
  const [settling, setSettling] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const settle = useCallback(() => {
    clearTimeout(timer.current);
    setSettling(true);
    timer.current = setTimeout(() => setSettling(false), SETTLES_MS);
  }, []);
  return [settling, settle];
}
