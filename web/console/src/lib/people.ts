/** Who has to decide, in words. */
import type { Translate } from "../i18n/index.js";
import { visibleText } from "./visible.js";

/** A role as it is called on the page; `user`, or none, is the session's own subject. */
export function roleName(role: string | undefined, t: Translate): string {
  return role === undefined || role === "user" ? t("people.owner") : visibleText(role);
}

export function personName(name: string | undefined, t: Translate): string {
  return name === undefined ? t("people.somebody") : visibleText(name);
}

/** Why a person may not say yes to a request. */
export type Bar = "asked" | "voted";
