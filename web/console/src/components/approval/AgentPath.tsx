import type { Action } from "@countersign/client";
import { visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";

/** The chain of agents called by agents, from the session's own down; nothing for the session's own agent. */
export function AgentPath({ action }: { action: Action }) {
  const { t } = useI18n();
  if (!action.path || action.path.length === 0) return null;
  return (
    <span className="fact" data-path>
      {t("card.path")}
      {t("text.colon")}
      {action.path.map((step) => (
        <span key={step.tool_use_id}>
          <strong>{visibleText(step.agent)}</strong> → <code>{visibleText(step.tool)}</code> →{" "}
        </span>
      ))}
      <strong>{visibleText(action.agent ?? "")}</strong>
    </span>
  );
}
