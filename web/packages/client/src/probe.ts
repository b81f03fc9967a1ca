/** Why a connection could not be opened: a browser does not say, so the server is asked at the address beside it. */
import { CountersignError } from "./errors.js";

/** The server refuses the page, or the host name used for it; or there is no server. */
export type WhyNot = CountersignError<"forbidden"> | CountersignError<"not_found">;

/** Whether the server refuses the token. Throws a `WhyNot` if there is no connection for another reason. */
export async function refusesToken(webSocket: string, token: string | undefined, signal: AbortSignal): Promise<boolean> {
  // Browsers from 2024 on also take an address relative to the page.
  const url = new URL("agents", new URL(webSocket.replace(/^ws(?=s?:)/i, "http"), globalThis.location?.href));
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(url, { headers, signal }).catch((cause: unknown) => whyUnread(url, cause, signal));
  const { status } = response;
  if (status === 403) {
    throw new CountersignError("forbidden", CountersignError.fromAnswer(status, await response.text()).message, { status });
  }
  await response.body?.cancel();
  if (status === 404 || isPage(response)) {
    const message = `There is no server of Countersign at ${webSocket}, for ${url} is not its list of agents: give the url of its WebSocket, as ws://127.0.0.1:7410/v1/ws.`;
    throw new CountersignError("not_found", message, { status });
  }
  return status === 401;
}

/** The answer of a website, or of the console, at any address. */
const isPage = ({ ok, headers }: Response) => ok && (headers.get("content-type") ?? "").startsWith("text/html");

/** A page may not read the answer of a server that does not allow its origin; it only sees that there is one. */
async function whyUnread(url: URL, cause: unknown, signal: AbortSignal): Promise<never> {
  const page = globalThis.location?.origin;
  if (page === undefined || page === url.origin) throw cause;
  await fetch(url, { mode: "no-cors", signal });
  const message = `${url.origin} answers, but not to pages of ${page}: name that origin in the server's allowed_origins.`;
  throw new CountersignError("forbidden", message, { cause });
}
