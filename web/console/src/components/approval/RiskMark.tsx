import { visibleText } from "@countersign/react";
import { isMessageKey, useI18n, type Translate } from "../../i18n/index.js";

/** What the operator thinks is at stake, in words of the page where it knows them. */
export function riskName(risk: string, t: Translate): string {
  const key = `risk.${risk}`;
  return isMessageKey(key) ? t(key) : visibleText(risk);
}

export function RiskMark({ risk }: { risk: string }) {
  const { t } = useI18n();
  return (
    <span className="risk" data-risk={risk}>
      {t("card.risk", { risk: riskName(risk, t) })}
    </span>
  );
}
