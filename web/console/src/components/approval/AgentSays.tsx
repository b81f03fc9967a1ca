import type { Action } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { Icon } from "../Icon.js";
import { ShownText } from "./ShownArgs.js";

/** The model's own words about a call. They are no fact, so they stand apart from what would run, as plain text. */
export function AgentSays({ action }: { action: Action }) {
  const { t } = useI18n();
  if (!action.agent_says) return null;
  return (
    <div className="agent-says">
      <p className="label">
        <Icon name="comment" />
        {t("shown.agentSays")}
      </p>
      <p className="agent-words">
        <ShownText text={action.agent_says} />
      </p>
    </div>
  );
}
