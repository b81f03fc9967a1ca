import { isObject, readJson, type JsonObject } from "./json.js";
import type { Open } from "./open.js";
import type { ErrorCode, ErrorEvent } from "./protocol.js";

/**
 * The server's codes (`docs/errors.md`), and the client's own: `offline`, the connection was lost and the request is
 * not repeated; `closed`, the client was closed; `unreachable`, no answer came, or it broke off; `http_502` and the
 * like, an answer that is not the server's, even one with the status 200. A newer server may have others.
 */
export type AnyCode = Open<ErrorCode | "offline" | "closed" | "unreachable" | `http_${number}`>;

/**
 * The mark by which errors of this class are recognised: two copies of this package in one program recognise each
 * other's.
 */
const BRAND = Symbol.for("@countersign/client.CountersignError");

/** Further facts about a refusal. */
export interface CountersignErrorOptions {
  /** Facts for programs: who was first, where the fault is. */
  details?: JsonObject | undefined;
  /** The key of the request that it is about. */
  approvalKey?: string | undefined;
  /** The status of the HTTP answer, if it was one. */
  status?: number;
  /** Whether it comes from the server; `false` by default. */
  byServer?: boolean;
  cause?: unknown;
}

/**
 * The server refused a request. `code` is stable; `message` is for people. Recognise it with `is`, not with
 * `instanceof`.
 */
export class CountersignError<Code extends AnyCode = AnyCode> extends Error {
  static {
    Object.defineProperty(this.prototype, BRAND, { value: true });
  }

  override readonly name = "CountersignError";
  readonly details: JsonObject | undefined;
  readonly approvalKey: string | undefined;
  readonly status: number | undefined;
  /**
   * Whether it is the server's answer, with the server's message; otherwise the client itself refuses, or a proxy in
   * between.
   */
  readonly byServer: boolean;

  constructor(
    readonly code: Code,
    message: string,
    { details, approvalKey, status, cause, byServer = false }: CountersignErrorOptions = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.details = details;
    this.approvalKey = approvalKey;
    this.status = status;
    this.byServer = byServer;
  }

  /** The code to look up a text by. A server's `bad_json` has many reasons, and its message says which. */
  get textCode(): string {
    return this.code === "bad_json" && this.byServer ? "other" : this.code;
  }

  /** Whether it is a refusal, with this code if one is given. */
  static is<Code extends AnyCode>(error: unknown, code?: Code): error is CountersignError<Code> {
    if (typeof error !== "object" || error === null || !(BRAND in error)) return false;
    return code === undefined || (error as Partial<CountersignError>).code === code;
  }

  /** Any thrown value as a refusal: `unreachable` if the server said nothing. */
  static of(error: unknown): CountersignError {
    if (CountersignError.is(error)) return error;
    return new CountersignError("unreachable", error instanceof Error ? error.message : String(error), { cause: error });
  }

  static fromEvent(event: ErrorEvent): CountersignError {
    return new CountersignError(event.code, event.message, { details: event.details, approvalKey: event.approval_key, byServer: true });
  }

  /** The error for an answer by RFC 9457, `{type, title, status, code, detail, details?}`, or for a proxy's page. */
  static fromAnswer(status: number, text: string, approvalKey?: string): CountersignError {
    const { code, detail, title, details } = objectIn(text);
    const unknown = status === 401 ? "unauthenticated" : (`http_${status}` as const);
    const byServer = typeof code === "string";
    const known = byServer ? (code as ErrorCode) : unknown;
    const message = [detail, title].find((words) => typeof words === "string") ?? `HTTP ${status}`;
    return new CountersignError(known, String(message), { status, details: isObject(details) ? details : undefined, approvalKey, byServer });
  }
}

function objectIn(text: string): JsonObject {
  try {
    const body = readJson(text);
    return isObject(body) ? body : {};
  } catch {
    return {}; // The status has to do.
  }
}
