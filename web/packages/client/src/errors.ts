import type { JsonObject } from "./json.js";
import type { ErrorEvent } from "./protocol.js";

/** The server refused a request. `code` is stable; `message` is for people. */
export class CountersignError extends Error {
  readonly code: string;
  readonly details: JsonObject | undefined;
  readonly approvalKey: string | undefined;

  constructor(code: string, message: string, details?: JsonObject, approvalKey?: string) {
    super(message);
    this.name = "CountersignError";
    this.code = code;
    this.details = details;
    this.approvalKey = approvalKey;
  }

  static fromEvent(event: ErrorEvent): CountersignError {
    return new CountersignError(event.code, event.message, event.details, event.approval_key);
  }
}
