/** Why a connection could not be opened: a browser does not say, so the server is asked at the address beside it. */
import { CountersignError } from "./errors.js";

/** Whether the server refuses the token. Throws a `CountersignError` with the code `forbidden` where it refuses the page, or the name it is called by. */
export async function refusesToken(webSocket: string, token: string | undefined): Promise<boolean> {
  const url = new URL("agents", webSocket.replace(/^ws/i, "http"));
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(url, { headers }).catch((cause: unknown) => whyUnread(url, cause));
  if (response.status === 403) {
    throw new CountersignError("forbidden", CountersignError.fromAnswer(403, await response.text()).message, { status: 403 });
  }
  await response.body?.cancel();
  return response.status === 401;
}

/** A page may not read what a server answers that does not allow its origin; only that there is an answer. */
async function whyUnread(url: URL, cause: unknown): Promise<never> {
  const page = globalThis.location?.origin;
  if (page === undefined || page === url.origin) throw cause;
  await fetch(url, { mode: "no-cors" });
  const message = `${url.origin} answers, but not to pages of ${page}: name that origin in the server's allowed_origins.`;
  throw new CountersignError("forbidden", message, { cause });
}
