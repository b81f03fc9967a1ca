/** The word for what a session is doing; one that this console does not know is shown as the server says it. */
import { visibleText } from "@countersign/react";
import { isMessageKey, type Translate } from "../i18n/index.js";

export function statusText(status: string, t: Translate): string {
  const key = `status.${status}`;
  return isMessageKey(key) ? t(key) : visibleText(status);
}
