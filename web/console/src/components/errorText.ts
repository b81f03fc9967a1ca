import { NO_PREFERENCE, type CountersignError } from "@countersign/client";
import { endingOf, visibleText, type Labels } from "@countersign/react";
import { isMessageKey, type Translate } from "../i18n/index.js";

/** A refusal in plain words of the page's language. */
export function errorText(error: CountersignError, t: Translate, resolved: Labels["resolved"]): string {
  if (error.code === "approval_already_resolved") {
    return t("error.approval_already_resolved", { how: howResolved(error, t, resolved) });
  }
  const key = `error.${error.textCode}`;
  return isMessageKey(key) ? t(key) : t("error.other");
}

/** How it ended, who ended it, and what they answered. */
function howResolved(error: CountersignError, t: Translate, resolved: Labels["resolved"]): string {
  const ending = endingOf(error);
  const how = visibleText(resolved(ending));
  const said = Object.values(ending.answers ?? {}).map(String).map((a) => (a === NO_PREFERENCE ? t("question.noPreference") : `“${visibleText(a)}”`));
  return [how, said.join(t("text.list"))].filter(Boolean).join(t("text.comma"));
}
