import type { ApprovalView } from "@countersign/client";
import type { Translate } from "../../i18n/index.js";
import { visibleText } from "../../lib/visible.js";

/** What a card is called: the server's title for a single action, else a general one. */
export function cardTitle(approval: ApprovalView, t: Translate): string {
  const own = approval.actions.length === 1 ? approval.reviewConfigs[0]?.title : undefined;
  if (own) return visibleText(own);
  if (approval.kind === "in_doubt") return t("card.titleInDoubt");
  if (approval.kind === "question") return t("card.titleQuestion");
  if (approval.kind === "interrupt") return t("card.titleInterrupt");
  return approval.actions.length > 1 ? t("card.titleMany", { n: approval.actions.length }) : t("card.title");
}

export function toolNames(approval: ApprovalView): string {
  return visibleText([...new Set(approval.actions.map((a) => a.name))].join(", "));
}
