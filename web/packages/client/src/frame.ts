/**
 * A frame as it is sent. The server refuses an unreadable frame without saying which one it was, and closes the
 * connection after one that is too large: so these are refused here, with the server's codes, before they are queued.
 */
import { CountersignError } from "./errors.js";
import { stringifyJson } from "./json.js";
import { FRAME_BYTES, MESSAGE_FRAME_BYTES, type ClientCommand } from "./protocol.js";

/** Throws a `CountersignError`: `bad_json` if it is not valid JSON, `too_large` above the server's bounds. */
export function frameOf(command: ClientCommand): string {
  const text = jsonOf(command);
  if (hasHalfCharacter(text)) {
    throw new CountersignError("bad_json", "A text has half a character (a lone surrogate), as of a cut emoji.");
  }
  const most = command.type === "message" ? MESSAGE_FRAME_BYTES : FRAME_BYTES;
  const bytes = bytesOf(text, most);
  if (bytes > most) {
    throw new CountersignError("too_large", `A ${command.type} has at most ${most} bytes as a frame, not ${bytes}.`);
  }
  return text;
}

function jsonOf(command: ClientCommand): string {
  try {
    return stringifyJson(command);
  } catch (cause) {
    throw new CountersignError("bad_json", `This is no JSON: ${String(cause)}`, { cause });
  }
}

/** Only a lone surrogate is written as `\ud…` in JSON. */
function hasHalfCharacter(json: string): boolean {
  if (!json.includes("\\ud")) return false;
  for (const [escape] of json.matchAll(/\\(?:u.{4}|.)/g)) if (escape.startsWith("\\ud")) return true;
  return false;
}

/** The size in UTF-8; counted only if it may be more than `most`. */
function bytesOf(text: string, most: number): number {
  return text.length * 3 <= most ? text.length : new TextEncoder().encode(text).length;
}
