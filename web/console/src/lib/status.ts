/** The word for a session's status; an unknown one is shown in the server's words. */
import { visibleText } from "@countersign/react";
import { isMessageKey, type Translate } from "../i18n/index.js";

export function statusText(status: string, t: Translate): string {
  const key = `status.${status}`;
  return isMessageKey(key) ? t(key) : visibleText(status);
}
