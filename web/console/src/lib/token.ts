/** What a token says of itself. Nothing here is checked: that is the server's. */
import { isObject, parseJson } from "@countersign/client";

/** `sub` of a JWT; nothing of any other token. */
export function subjectOfToken(token: string | null): string | undefined {
  const parts = token?.split(".") ?? [];
  if (parts.length !== 3) return undefined;
  try {
    const bytes = Uint8Array.from(atob(parts[1]!.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    const claims = parseJson(new TextDecoder().decode(bytes));
    return isObject(claims) && typeof claims.sub === "string" ? claims.sub : undefined;
  } catch {
    return undefined;
  }
}
