/** Durations and moments in words. */
export { momentText } from "@countersign/react/forms";

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
