/** Exponential delay with full jitter in its upper half, so that many clients do not return at once. */
export interface BackoffOptions {
  firstMs?: number;
  maxMs?: number;
  /** Injected in tests. */
  random?: () => number;
}

export function backoffMs(attempt: number, options: BackoffOptions = {}): number {
  const { firstMs = 300, maxMs = 10_000, random = Math.random } = options;
  const ceiling = Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 20));
  return Math.round(ceiling / 2 + (random() * ceiling) / 2);
}
