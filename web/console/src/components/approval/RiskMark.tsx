import { visibleText } from "@countersign/react";
import { isMessageKey, useI18n, type Translate } from "../../i18n/index.js";

/** The operator's risk level, in words of the page if it has them. */
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
