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

  /** An error thrown by a listener neither keeps the value from the other listeners nor stops the emitter. */
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

/** Report an error of the application as an uncaught one. */
export function report(error: unknown): void {
  if (typeof globalThis.reportError === "function") return globalThis.reportError(error);
  queueMicrotask(() => {
    throw error;
  });
}
