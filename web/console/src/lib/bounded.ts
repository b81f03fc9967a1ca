/** Forget what was put in first, so that at most so many are left; returns the keys of what is gone. */
export function forgetOldest<K>(map: { size: number; keys(): Iterable<K>; delete(key: K): boolean }, most: number): K[] {
  const gone = [...map.keys()].slice(0, Math.max(0, map.size - most));
  for (const key of gone) map.delete(key);
  return gone;
}
