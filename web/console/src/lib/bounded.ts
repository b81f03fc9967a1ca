/** Drop the oldest entries, so that at most this many are left; returns the dropped keys. */
export function forgetOldest<K>(map: { size: number; keys(): Iterable<K>; delete(key: K): boolean }, most: number): K[] {
  const gone = [...map.keys()].slice(0, Math.max(0, map.size - most));
  for (const key of gone) map.delete(key);
  return gone;
}
