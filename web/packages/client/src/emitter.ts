/** A typed event emitter, small enough to own. */
export class Emitter<Events extends Record<string, unknown>> {
  readonly #listeners = new Map<keyof Events, Set<(value: never) => void>>();

  /** Returns the function that stops listening. */
  on<K extends keyof Events>(name: K, listener: (value: Events[K]) => void): () => void {
    let set = this.#listeners.get(name);
    if (!set) this.#listeners.set(name, (set = new Set()));
    set.add(listener);
    return () => void set.delete(listener);
  }

  /** What a listener throws keeps the value from no other one, nor whoever emits from going on. */
  protected emit<K extends keyof Events>(name: K, value: Events[K]): void {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        (listener as (value: Events[K]) => void)(value);
      } catch (error) {
        report(error);
      }
    }
  }
}

/** Let an error of the application's be known as one that nobody has caught. */
export function report(error: unknown): void {
  if (typeof globalThis.reportError === "function") return globalThis.reportError(error);
  queueMicrotask(() => {
    throw error;
  });
}
