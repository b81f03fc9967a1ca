/** The words for what the server says; what this console does not know is shown as it says it. */
import { visibleText } from "@countersign/react";
import { isMessageKey, type Translate } from "../i18n/index.js";

/** `of`: where the catalogues have the words for it. */
export function wordOf(of: "status" | "tool.status", value: string, t: Translate): string {
  const key = `${of}.${value}`;
  return isMessageKey(key) ? t(key) : visibleText(value);
}

export const statusText = (status: string, t: Translate): string => wordOf("status", status, t);
