import { useEffect, type RefObject } from "react";

/**
 * Scrolls an element that opens below the edge of the page completely into view; focusing its first field shows only
 * that.
 */
export function useIntoView(ref: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    // After the frame in which the field is focused.
    const frame = requestAnimationFrame(() => ref.current?.scrollIntoView({ block: "nearest" }));
    return () => cancelAnimationFrame(frame);
  }, [ref]);
}
