/**
 * The numbers that the server refuses: a program that reads one as a 64-bit integer or as a double would get another
 * value. The rule is the server's own (`crates/core/src/call/json.rs`), so that a field can apply it while a number is
 * typed.
 */
import { isLosslessNumber, type JsonValue } from "@countersign/client";

const [LEAST, MOST] = [-(2n ** 63n), 2n ** 64n - 1n];

/** Whether the text, a JSON number, is neither a 64-bit integer nor exactly a double. */
export function losesDigits(text: string): boolean {
  if (/^-?\d{1,20}$/.test(text)) {
    const whole = BigInt(text);
    if (whole >= LEAST && whole <= MOST) return false;
  }
  const double = Number(text);
  return !Number.isFinite(double) || decimal(text) !== decimal(String(double));
}

/** The first such number in a value, cut where it is long. */
export function tooExact(value: JsonValue): string | undefined {
  if (isLosslessNumber(value)) {
    const text = String(value);
    return losesDigits(text) ? (text.length > 40 ? `${text.slice(0, 40)}…` : text) : undefined;
  }
  // A number is plain only if JavaScript writes it exactly as it was written.
  if (typeof value !== "object" || value === null) return undefined;
  for (const part of Object.values(value)) {
    const found = tooExact(part);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Sign, digits and exponent of the last digit: the same for the same decimal value. */
function decimal(text: string): string {
  const [mantissa = "", exponent = "0"] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.replace("-", "").split(".");
  const all = whole + fraction;
  let [first, end] = [0, all.length];
  while (all[end - 1] === "0") end--;
  while (first < end && all[first] === "0") first++;
  if (first === end) return "0";
  return `${mantissa.startsWith("-") ? "-" : ""}${all.slice(first, end)}e${Number(exponent) - fraction.length + all.length - end}`;
}
