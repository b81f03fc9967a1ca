import { memo, useMemo } from "react";
import type { BlockView, MessageView, SessionView } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { layOut } from "../../lib/segments.js";
import { Block, type MessageContext } from "./Block.js";
import { Group } from "./Group.js";

interface Props {
  message: MessageView;
  /** Those of this part of the message. */
  blocks: BlockView[];
  approvals: SessionView["approvals"];
}

export const MessageItem = memo(function MessageItem({ message, blocks, approvals }: Props) {
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
      <Segments message={message} blocks={blocks} approvals={approvals} />
    </article>
  );
});

function Segments({ message, blocks, approvals }: Props) {
  const { uses, ...calls } = useMemo(() => callsOf(message.blocks), [message.blocks]);
  const segments = useMemo(() => layOut(blocks, message.groups, uses), [blocks, message.groups, uses]);
  const end = message.open ? undefined : message.stopReason === "end_turn" ? "ended" : "cut";
  const context: MessageContext = { ...calls, approvals, end };
  return segments.map((segment) =>
    "group" in segment ? (
      <Group key={segment.key} group={segment.group} blocks={segment.blocks} context={context} />
    ) : (
      <Block key={segment.key} block={segment.block} context={context} />
    ),
  );
}

function callsOf(blocks: BlockView[]) {
  const uses = new Set<string>();
  const results: MessageContext["results"] = new Map();
  let newestTodos: string | undefined;
  for (const b of blocks) {
    if (b.type === "tool_result") results.set(b.toolUseId, b);
    if (b.type !== "tool_use") continue;
    uses.add(b.id);
    if (b.name === "write_todos") newestTodos = b.id;
  }
  return { uses, results, newestTodos };
}
