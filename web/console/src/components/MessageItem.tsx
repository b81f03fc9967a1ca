import { memo, useMemo } from "react";
import type { BlockView, MessageView, SessionView } from "@countersign/client";
import { useI18n } from "../i18n/index.js";
import { ApprovalCard } from "./approval/ApprovalCard.js";
import { Icon } from "./Icon.js";
import { Markdown } from "./Markdown.js";
import { ToolCall, type ToolUse, type ToolResult } from "./ToolCall.js";

interface Props {
  message: MessageView;
  /** Those of this part of the message. */
  blocks: BlockView[];
  view: SessionView;
}

export const MessageItem = memo(function MessageItem({ message, blocks, view }: Props) {
  const { t } = useI18n();
  if (message.role === "user") {
    const text = message.blocks.map((b) => (b.type === "text" ? b.text : "")).join("\n");
    return (
      <article className="message user" aria-label={t("chat.you")}>
        <div className="bubble">{text}</div>
      </article>
    );
  }
  return (
    <article className="message assistant" aria-label={t("chat.agent")}>
      <Blocks message={message} blocks={blocks} view={view} />
    </article>
  );
});

function Blocks({ message, blocks, view }: Props) {
  const results = useMemo(() => {
    const byCall = new Map<string, ToolResult>();
    for (const b of message.blocks) if (b.type === "tool_result") byCall.set(b.toolUseId, b);
    return byCall;
  }, [message.blocks]);
  const uses = useMemo(
    () => new Set(message.blocks.flatMap((b) => (b.type === "tool_use" ? [b.id] : []))),
    [message.blocks],
  );
  return blocks.map((block) => (
    <Block key={block.index} block={block} message={message} view={view} results={results} uses={uses} />
  ));
}

interface BlockProps extends Omit<Props, "blocks"> {
  block: BlockView;
  results: Map<string, ToolResult>;
  uses: Set<string>;
}

function Block({ block, message, view, results, uses }: BlockProps) {
  const { t } = useI18n();
  const end = message.open ? undefined : message.stopReason === "end_turn" ? "ended" : "cut";
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
          <div className="thinking-text">{block.thinking}</div>
        </details>
      );
    case "tool_use":
      return <ToolCall use={block} result={results.get(block.id)} waits={waits(view, block)} end={end} />;
    case "tool_result":
      // Shown with its call; on its own only where the call was not streamed.
      return uses.has(block.toolUseId) ? null : <ToolCall result={block} waits={false} end={end} />;
    case "approval_request": {
      const approval = view.approvals[block.approvalKey];
      return approval ? <ApprovalCard approval={approval} /> : null;
    }
    case "approval_result":
    case "approval_timeout":
      return null; // Shown by the card of the request.
    case "unknown":
      return <p className="notice">{t("chat.unknownBlock", { type: block.blockType })}</p>;
  }
}

function waits(view: SessionView, use: ToolUse): boolean {
  return Object.values(view.approvals).some(
    (a) => a.resolution === undefined && a.actions.some((action) => action.tool_use_id === use.id),
  );
}
