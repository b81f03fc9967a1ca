import type { Action } from "@countersign/client";
import { useTexts } from "../labels.js";
import { ShownText } from "./Arguments.js";
import { Glyph } from "./Glyph.js";

/** The model's own words about a call. They are not facts, so they are set apart from what would run, as plain text. */
export function AgentSays({ action }: { action: Action }) {
  const { t, part } = useTexts();
  if (!action.agent_says) return null;
  return (
    <div {...part("agent-says")}>
      <p {...part("label")}>
        <Glyph name="comment" />
        {t("shown.agentSays")}
      </p>
      <p {...part("agent-words")}>
        <ShownText text={action.agent_says} />
      </p>
    </div>
  );
}
