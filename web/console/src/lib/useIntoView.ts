import { useEffect, type RefObject } from "react";

/** What opens below the edge of the page is brought in whole; focusing its first field brings in that one only. */
export function useIntoView(ref: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    // After the frame in which the field is focused.
    const frame = requestAnimationFrame(() => ref.current?.scrollIntoView({ block: "nearest" }));
    return () => cancelAnimationFrame(frame);
  }, [ref]);
}
