/** The time that is left. */

/** `4:05`, or `1:02:03` from an hour on; from a day on in words: `6 days 23 hr`. */
export function clockText(ms: number, language: string): string {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  if (h >= 24) {
    const parts = ([["day", Math.floor(h / 24)], ["hour", h % 24]] as const).filter(([, n]) => n > 0);
    const words = parts.map(([unit, n]) => new Intl.NumberFormat(language, { style: "unit", unit }).format(n));
    return new Intl.ListFormat(language, { type: "unit", style: "narrow" }).format(words);
  }
  const two = (n: number) => String(n).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}
