/**
 * Parts of the page that are loaded later: when they are needed, or when the browser is idle. A tab that has loaded
 * them all needs no file from a server that is unreachable, or newer with other files.
 */
type Load<T> = () => Promise<T>;

const parts = new Set<Load<unknown>>();

/** A part, which is also loaded ahead. */
export function late<T>(load: Load<T>): Load<T> {
  parts.add(load);
  return load;
}

/** Mark the end of the initial load, for measurements, and load the rest, one part after the other. */
export async function loadAhead(): Promise<void> {
  performance.mark("countersign:begun");
  for (const load of parts) await load().catch(() => undefined);
}
