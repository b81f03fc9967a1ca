/** Durations and moments in words. */
export { momentText } from "@countersign/react/forms";

/** `4:05`, or `1:02:03` from an hour on. */
export function clockText(ms: number): string {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const [h, m, s] = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const two = (n: number) => String(n).padStart(2, "0");
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** The time of day. */
export function timeText(at: number, language: string): string {
  return new Intl.DateTimeFormat(language, { timeStyle: "short" }).format(at);
}

export function dayText(date: Date, language: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "long" }).format(date);
}

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
];

/** "3 minutes ago" in the language of the page; "now" below a minute. Days are not "yesterday": they are counted in hours. */
export function agoText(then: string | undefined, now: number, language: string): string {
  const ms = then ? Date.parse(then) - now : Number.NaN;
  if (Number.isNaN(ms)) return "";
  const numeric = Math.abs(ms) < 86_400_000 ? "auto" : "always";
  const format = new Intl.RelativeTimeFormat(language, { numeric, style: "short" });
  for (const [unit, size] of UNITS) {
    if (Math.abs(ms) >= size) return format.format(Math.round(ms / size), unit);
  }
  return format.format(0, "second");
}

/** "5 minutes", in the largest unit that it is a whole number of. */
export function secondsText(seconds: number, language: string): string {
  const [unit, size] = UNITS.find(([, ms]) => seconds > 0 && (seconds * 1000) % ms === 0) ?? (["second", 1000] as const);
  return new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" }).format((seconds * 1000) / size);
}
