/**
 * The steps between two texts, under one line that opens and closes them.
 *
 * Open while the agent works in it or while something in it is pending; closed afterwards. A person's own opening or
 * closing is respected, except that a pending request is never hidden, nor input for one that was resolved first.
 */
import { useCallback, useId, useLayoutEffect, useRef, useState } from "react";
import { toolArgs, type ApprovalView, type BlockView, type GroupView } from "@countersign/client";
import { Visible, visibleText } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { isEdited } from "../../lib/edits.js";
import { summarize } from "../approval/ResolvedLine.js";
import { KeepOpen } from "../approval/Unsent.js";
import { Icon } from "../Icon.js";
import { Block, ThinkingText, type MessageContext } from "./Block.js";

interface Props {
  group: GroupView;
  blocks: BlockView[];
  context: MessageContext;
}

export function Group({ group, blocks, context }: Props) {
  const { t } = useI18n();
  const id = useId();
  const requests = blocks.flatMap((b) => (b.type === "approval_request" ? (context.approvals[b.approvalKey] ?? []) : []));
  const waiting = new Set(requests.filter((a) => a.resolution === undefined).map((a) => a.approvalKey));
  const working = group.open && context.end === undefined;
  const [chosen, setChosen] = useState<boolean>();
  const [kept, setKept] = useState<ReadonlySet<string>>(new Set());
  const keepOpen = useCallback((key: string, keep: boolean) => {
    setKept((all) => (all.has(key) === keep ? all : new Set(keep ? [...all, key] : [...all].filter((one) => one !== key))));
  }, []);
  const open = chosen ?? (working || waiting.size > 0);
  const inSight = (key: string) => waiting.has(key) || kept.has(key);
  const button = useRef<HTMLButtonElement>(null);
  const body = useRef<HTMLDivElement>(null);
  // A group that closes by itself must not take the focus along.
  useLayoutEffect(() => {
    if (!open && body.current?.contains(document.activeElement)) button.current?.focus();
  }, [open]);

  const steps = blocks.filter((b) => b.type !== "approval_request");
  const thought = steps.length === 1 && steps[0]?.type === "thinking" && requests.length === 0 ? steps[0] : undefined;
  const named = newestNamed(blocks);
  // It says what was proposed, which may not be what ran.
  const edited = named && isEdited(context.reviewed.get(named.seq), named.name, toolArgs(named));
  const summary = edited ? undefined : (group.summary ?? named?.toolContentMessage);
  const tools = [...new Set(steps.flatMap((b) => (b.type === "tool_use" || b.type === "tool_result" ? [b.name] : [])))];

  return (
    <section className="group" data-open={open || undefined}>
      <button
        ref={button}
        type="button"
        className="group-row"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setChosen(!open)}
      >
        <Icon name="chevron" />
        <span className="group-title">
          {summary !== undefined ? (
            <Visible text={summary} strict />
          ) : thought ? (
            t(thought.open ? "chat.thinkingNow" : "chat.thinking")
          ) : (
            <>
              {steps.length === 1 ? t("group.step") : t("group.steps", { n: steps.length })}
              {tools.length > 0 && <span className="group-tools">{visibleText(tools.join(t("text.list")))}</span>}
            </>
          )}
        </span>
        {working && waiting.size === 0 && <span className="pulse" aria-hidden="true" />}
        {!open && <Outcomes requests={requests} approvals={context.approvals} />}
      </button>
      <div ref={body} id={id} className="group-body" hidden={!open && waiting.size + kept.size === 0}>
        {thought ? (
          <ThinkingText text={thought.thinking} />
        ) : (
          <KeepOpen value={keepOpen}>
            {blocks.map((block) => {
              const hidden = !open && !(block.type === "approval_request" && inSight(block.approvalKey));
              return (
                <div key={block.index} className="step" hidden={hidden}>
                  <Block block={block} context={context} />
                </div>
              );
            })}
          </KeepOpen>
        )}
      </div>
    </section>
  );
}

/** People's decisions inside, so that a closed group does not hide a rejection. */
function Outcomes({ requests, approvals }: { requests: ApprovalView[]; approvals: MessageContext["approvals"] }) {
  const { t } = useI18n();
  const outcomes = requests.filter((a) => a.resolution !== undefined).map((a) => summarize(a, t, approvals));
  const different = [...new Map(outcomes.map((o) => [o.text, o])).values()];
  return (
    <span className="outcomes">
      {different.map(({ text, tone }) => (
        <span key={text} className="outcome" data-tone={tone}>
          {text}
        </span>
      ))}
    </span>
  );
}

function newestNamed(blocks: BlockView[]) {
  const newest = blocks.findLast((b) => b.type === "tool_use" && b.toolContentMessage !== undefined);
  return newest?.type === "tool_use" ? newest : undefined;
}
