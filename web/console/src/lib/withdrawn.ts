import { isMessageKey, type Translate } from "../i18n/index.js";

/** Says that nobody answered, and why, if that is known here and the end of the turn does not say it. */
export function withdrawnText(reason: string | undefined, t: Translate): string {
  const key = `withdrawn.${reason}`;
  return t("resolved.cancelled") + (isMessageKey(key) ? t("text.colon") + t(key) : "");
}
