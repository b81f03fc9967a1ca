/** Days and moments in words. */

/** A moment with its date, for those who want it exactly. */
export function momentText(at: string, language: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  return new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" }).format(date);
}

/** The same with the time zone, where it stands beside a time that has one too. */
export function zonedText(at: string, language: string): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const time = { hour: "numeric", minute: "2-digit", timeZoneName: "short" } as const;
  return new Intl.DateTimeFormat(language, { year: "numeric", month: "short", day: "numeric", ...time }).format(date);
}

/** A day of the calendar, with its day of the week. */
export function weekdayText(day: string, language: string): string {
  return new Intl.DateTimeFormat(language, { dateStyle: "full", timeZone: "UTC" }).format(new Date(`${day}T00:00:00Z`));
}
