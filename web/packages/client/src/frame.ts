/**
 * A frame as it is sent. One that the server cannot read it refuses without saying whose it is, and after one that is too
 * large it closes the connection: so these are refused here, with the server's codes, before they wait to be sent.
 */
import { CountersignError } from "./errors.js";
import { stringifyJson } from "./json.js";
import { FRAME_BYTES, MESSAGE_FRAME_BYTES, type ClientCommand } from "./protocol.js";

/** Throws a `CountersignError`: `bad_json` for what is no JSON, `too_large` above the server's bounds. */
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

/** Half a character is the only one that JSON is written with as `\ud…`. */
function hasHalfCharacter(json: string): boolean {
  if (!json.includes("\\ud")) return false;
  for (const [escape] of json.matchAll(/\\(?:u.{4}|.)/g)) if (escape.startsWith("\\ud")) return true;
  return false;
}

/** In UTF-8; counted only where it may be more than `most`. */
function bytesOf(text: string, most: number): number {
  return text.length * 3 <= most ? text.length : new TextEncoder().encode(text).length;
}
