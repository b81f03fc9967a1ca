import { memo, useContext, useMemo } from "react";
import { isCut, type BlockView, type ImageSource, type MessageView, type SessionView } from "@countersign/client";
import { showDirectionMarks, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { callsOf } from "../../lib/calls.js";
import { reviewedCalls } from "../../lib/edits.js";
import { layOut } from "../../lib/segments.js";
import { TurnFailed } from "../../lib/turnFailed.js";
import { hasFailed, type End } from "../../lib/turns.js";
import { useMe } from "../../state/me.js";
import { Icon } from "../Icon.js";
import { Block, type MessageContext } from "./Block.js";
import { Group } from "./Group.js";
import { MessageImage } from "./MessageImage.js";

interface Props {
  message: MessageView;
  /** All the agent's messages of its turn, if there is more than one. */
  turn?: readonly MessageView[] | undefined;
  /** Those of this part of the message. */
  blocks: BlockView[];
  approvals: SessionView["approvals"];
}

export const MessageItem = memo(function MessageItem({ message, turn, blocks, approvals }: Props) {
  const { t } = useI18n();
  if (message.role === "user") return <UserMessage message={message} />;
  return (
    <article className="message assistant" aria-label={t("chat.agent")}>
      <Segments message={message} turn={turn} blocks={blocks} approvals={approvals} />
    </article>
  );
});

/** A person's message to the agent: from the session's owner, or from a reviewer beside a decision. */
function UserMessage({ message: { by, blocks } }: { message: MessageView }) {
  const { t } = useI18n();
  const { name } = useMe();
  const text = blocks.flatMap((b) => (b.type === "text" ? [b.text] : [])).join("\n");
  const images = blocks.flatMap((b) => (b.type === "image" ? [b.source] : []));
  const other = by === undefined || by === name ? undefined : visibleText(by);
  return (
    <article className="message user" aria-label={other ?? t("chat.you")}>
      {other !== undefined && <p className="author">{other}</p>}
      <Said text={text} images={images} />
    </article>
  );
}

/** What a person says: images, and the words about them. */
export function Said({ text, images }: { text: string; images: ImageSource[] }) {
  return (
    <>
      {images.length > 0 && (
        <div className="said-images">
          {images.map((source, i) => (
            <MessageImage key={i} source={source} n={i + 1} />
          ))}
        </div>
      )}
      {(text !== "" || images.length === 0) && <div className="bubble">{showDirectionMarks(text)}</div>}
    </>
  );
}

function Segments({ message, turn, blocks, approvals }: Props) {
  const failed = useContext(TurnFailed);
  const all = useMemo(() => turn?.flatMap((m) => m.blocks) ?? message.blocks, [turn, message.blocks]);
  const { uses, ...calls } = useMemo(() => callsOf(all), [all]);
  const segments = useMemo(() => layOut(blocks, message.groups, uses), [blocks, message.groups, uses]);
  const reviewed = useMemo(() => reviewedCalls(all, approvals), [all, approvals]);
  const context: MessageContext = { ...calls, approvals, reviewed, end: endOf(turn?.at(-1) ?? message, failed) };
  return segments.map((segment) =>
    "replaced" in segment ? (
      <Replaced key={segment.key} blocks={segment.replaced} />
    ) : "group" in segment ? (
      <Group key={segment.key} group={segment.group} blocks={segment.blocks} context={context} />
    ) : (
      <Block key={segment.key} block={segment.block} context={context} />
    ),
  );
}

function endOf(last: MessageView, failed: boolean): End | undefined {
  if (last.open) return undefined;
  if (last.stopReason === "end_turn" || isCut(last.stopReason)) return "ended";
  return failed && hasFailed(last) ? "failed" : "cut";
}

/** The content of an answer that broke off: collapsed, and nothing in it continues. */
function Replaced({ blocks }: { blocks: BlockView[] }) {
  const { t } = useI18n();
  const context: MessageContext = { approvals: {}, results: new Map(), reviewed: new Map(), newestTodos: undefined, end: "cut" };
  return (
    <details className="thinking replaced">
      <summary>
        <Icon name="chevron" />
        {t("chat.replaced")}
      </summary>
      {blocks.map((block) => (
        <Block key={block.index} block={block} context={context} />
      ))}
    </details>
  );
}
