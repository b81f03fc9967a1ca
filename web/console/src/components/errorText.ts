import { isObject, NO_PREFERENCE, type CountersignError, type JsonObject } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { isMessageKey, type Translate } from "../i18n/index.js";
import { withdrawnText } from "../lib/withdrawn.js";

/** A refusal in plain words of the page's language. */
export function errorText(error: CountersignError, t: Translate): string {
  if (error.code === "approval_already_resolved") {
    return t("error.approval_already_resolved", { how: howResolved(error.details, t) });
  }
  const key = `error.${error.textCode}`;
  return isMessageKey(key) ? t(key) : t("error.other");
}

/** How it ended, who ended it, and what they answered. */
function howResolved(details: JsonObject | undefined, t: Translate): string {
  const words = {
    decided: t("resolved.decided"),
    timeout: t("resolved.timeout"),
    cancelled: withdrawnText(typeof details?.reason === "string" ? details.reason : undefined, t),
  };
  const answers = isObject(details?.answers) ? Object.values(details.answers).map(String) : undefined;
  const how = answers ? t("resolved.answered") : (words[details?.resolution as keyof typeof words] ?? words.decided);
  const said = answers?.map((a) => (a === NO_PREFERENCE ? t("question.noPreference") : `“${visibleText(a)}”`));
  const by = typeof details?.by === "string" ? t("resolved.by", { name: visibleText(details.by) }) : undefined;
  return [how, by, said?.join(t("text.list"))].filter(Boolean).join(t("text.comma"));
}
