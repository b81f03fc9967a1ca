/**
 * Parts of the page that are loaded after its beginning: when they are needed, or when nothing else is to do. A tab that has
 * them all needs no file of a server that is away, or of a newer version that has others.
 */
type Load<T> = () => Promise<T>;

const parts = new Set<Load<unknown>>();

/** A part, which is also loaded ahead. */
export function late<T>(load: Load<T>): Load<T> {
  parts.add(load);
  return load;
}

/** Mark where the beginning ends, for whoever measures it, and load what is left, one part after the other. */
export async function loadAhead(): Promise<void> {
  performance.mark("countersign:begun");
  for (const load of parts) await load().catch(() => undefined);
}
