/** Who asks: a node of a graph, or an agent's tool in the middle of a call. */
import type { ApprovalView } from "@countersign/client";
import { Visible, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { AgentPath } from "../approval/AgentPath.js";
import { Icon } from "../Icon.js";

interface Props {
  approval: ApprovalView;
  /** Whether the server that asks is named beside its words. */
  named?: boolean;
}

export function AskedBy({ approval, named = false }: Props) {
  const { t } = useI18n();
  const action = approval.actions[0];
  const input = approval.kind === "input";
  return (
    <div className="facts-line">
      {!named && (
        <span className="tool-chip">
          <Icon name={input ? "tool" : "graph"} />
          <span className="visually-hidden">{t(input ? "interrupt.from" : "interrupt.node")}{t("text.colon")}</span>
          <code>
            <Visible text={approval.interrupt?.node ?? ""} />
          </code>
        </span>
      )}
      {input && action?.name && (
        <span className="fact">
          {t("card.tool")}
          {t("text.colon")}
          <code>{visibleText(action.name)}</code>
        </span>
      )}
      {action?.agent && (
        <span className="fact">
          {t(input ? "card.agent" : "interrupt.graph")}
          {t("text.colon")}
          <strong>{visibleText(action.agent)}</strong>
        </span>
      )}
      {action && <AgentPath action={action} />}
    </div>
  );
}
