import type { Action, ReviewConfig } from "@countersign/client";
import { Visible, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { roleName } from "../../lib/people.js";
import { Icon } from "../Icon.js";
import { AgentPath } from "./AgentPath.js";
import { RiskMark } from "./RiskMark.js";

interface Props {
  action: Action;
  config: ReviewConfig;
  /** The card's own heading does not already say it. */
  showTitle: boolean;
  /** Whether others decide it than the rest of its request, for which the card says it. */
  showRole: boolean;
}

/** Who wants to run what, and why a person is asked. */
export function ActionFacts({ action, config, showTitle, showRole }: Props) {
  const { t } = useI18n();
  const { level, levels } = config;
  return (
    <div className="facts">
      {showTitle && config.title && (
        <h3>
          <Visible text={config.title} />
        </h3>
      )}
      <div className="facts-line">
        <span className="tool-chip">
          <Icon name="tool" />
          <span className="visually-hidden">{t("card.tool")}{t("text.colon")}</span>
          <code>
            <Visible text={action.name} />
          </code>
        </span>
        {action.agent && (
          <span className="fact">
            {t("card.agent")}
            {t("text.colon")}
            <strong>{visibleText(action.agent)}</strong>
          </span>
        )}
        {action.server !== undefined && (
          <span className="fact" data-server>
            {t("elicit.server")}
            {t("text.colon")}
            <strong>{visibleText(action.server)}</strong>
          </span>
        )}
        <AgentPath action={action} />
        {showRole && (
          <span className="fact">
            {t("card.role")}
            {t("text.colon")}
            <strong>{roleName(config.role, t)}</strong>
            {level !== undefined && levels && t("text.paren", { text: t("card.level", { n: level, of: levels.length }) })}
          </span>
        )}
        {config.risk && <RiskMark risk={config.risk} />}
      </div>
      {action.description && (
        <p className="card-text">
          {action.server !== undefined && <span className="muted">{t("elicit.says", { server: visibleText(action.server) })}{t("text.colon")}</span>}
          <Visible text={action.description} />
        </p>
      )}
      {config.reason && (
        <p className="reason">
          <span className="muted">
            {t("card.reason")}
            {t("text.colon")}
          </span>
          <Visible text={config.reason} />
        </p>
      )}
    </div>
  );
}
