import type { CountersignError, JsonObject } from "@countersign/client";
import { isMessageKey, type Translate } from "../i18n/index.js";

/** A refusal in plain words of the page's language; an unknown code keeps the server's own words. */
export function errorText(error: CountersignError, t: Translate): string {
  if (error.code === "approval_already_resolved") {
    return t("error.approval_already_resolved", { how: howResolved(error.details, t) });
  }
  const key = `error.${error.code}`;
  return isMessageKey(key) ? t(key) : error.message || error.code;
}

function howResolved(details: JsonObject | undefined, t: Translate): string {
  const words = {
    decided: t("resolved.decided"),
    timeout: t("resolved.timeout"),
    cancelled: t("resolved.cancelled"),
  };
  const how = words[details?.resolution as keyof typeof words] ?? t("resolved.decided");
  return typeof details?.by === "string" ? `${how}, ${t("resolved.by", { name: details.by })}` : how;
}
