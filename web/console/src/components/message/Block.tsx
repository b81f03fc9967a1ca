import type { BlockView, SessionView } from "@countersign/client";
import { Visible } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import type { Reviewed } from "../../lib/edits.js";
import type { End } from "../../lib/turns.js";
import { ApprovalCard } from "../approval/ApprovalCard.js";
import { Icon } from "../Icon.js";
import { Markdown } from "./Markdown.js";
import { ToolCall, type ToolResult, type ToolUse, type Waits } from "./ToolCall.js";

/** The context of a block from the rest of its message and session. */
export interface MessageContext {
  approvals: SessionView["approvals"];
  /** Those of the turn, by the `seq` of their call: a model may give several calls the same id. */
  results: ReadonlyMap<number, ToolResult>;
  /** People's edits and decisions on the calls, by the `seq` of each. */
  reviewed: ReadonlyMap<number, Reviewed>;
  /** The call that wrote the to-do list as it is now, by its `seq`. */
  newestTodos: number | undefined;
  /** The state of the turn, if it does not continue by itself. */
  end: End | undefined;
}

interface Props {
  block: BlockView;
  context: MessageContext;
}

export function Block({ block, context }: Props) {
  const { t } = useI18n();
  const { approvals, results, reviewed, end, newestTodos } = context;
  switch (block.type) {
    case "text":
      return <Markdown text={block.text} />;
    case "thinking":
      return (
        <details className="thinking">
          <summary>
            <Icon name="chevron" />
            {t(block.open ? "chat.thinkingNow" : "chat.thinking")}
          </summary>
          <ThinkingText text={block.thinking} />
        </details>
      );
    case "tool_use": {
      const result = results.get(block.seq);
      return (
        <ToolCall
          use={block}
          result={result}
          reviewed={reviewed.get(block.seq)}
          waits={result ? undefined : waits(approvals, block)}
          end={end}
          newestTodos={block.seq === newestTodos}
        />
      );
    }
    case "tool_result":
      // On its own only if the call was not streamed.
      return <ToolCall result={block} waits={undefined} end={end} />;
    case "approval_request": {
      const approval = approvals[block.approvalKey];
      return approval ? <ApprovalCard approval={approval} /> : null;
    }
    case "unknown":
      return <p className="notice">{t("chat.unknownBlock", { type: block.blockType })}</p>;
    default:
      return null; // Shown by the card of the request.
  }
}

export function ThinkingText({ text }: { text: string }) {
  return (
    <div className="thinking-text">
      <Visible text={text} />
    </div>
  );
}

function waits(approvals: SessionView["approvals"], use: ToolUse): Waits | undefined {
  const open = Object.values(approvals).filter(
    (a) => a.resolution === undefined && a.actions.some((action) => action.tool_use_id === use.id),
  );
  if (open.length === 0) return undefined;
  if (open.some((a) => a.kind === "in_doubt")) return "unknown";
  return open.some((a) => a.kind === "approval") ? "waiting" : "asking";
}
