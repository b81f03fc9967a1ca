import { useId, useMemo, useState } from "react";
import { stringifyJson, todosOf, toolArgs, type BlockView } from "@countersign/client";
import { Changes, Visible } from "@countersign/react";
import { prettyJson } from "@countersign/react/forms";
import { useI18n, wordText } from "../../i18n/index.js";
import { isEdited, type Reviewed } from "../../lib/edits.js";
import { personName } from "../../lib/people.js";
import type { End } from "../../lib/turns.js";
import { Icon } from "../Icon.js";
import { TodoList } from "./TodoList.js";

export type ToolUse = Extract<BlockView, { type: "tool_use" }>;
export type ToolResult = Extract<BlockView, { type: "tool_result" }>;

/** What a call waits for: a person's decision, a report of its outcome, or an answer to its question. */
export type Waits = "waiting" | "unknown" | "asking";

interface Props {
  use?: ToolUse | undefined;
  result?: ToolResult | undefined;
  /** The call as people decided it. */
  reviewed?: Reviewed | undefined;
  waits: Waits | undefined;
  /** The state of its turn, if it does not continue by itself. */
  end: End | undefined;
  /** Whether it wrote the current to-do list. */
  newestTodos?: boolean;
}

/** One row for a call and its result; it opens to show both in full. */
export function ToolCall({ use, result, reviewed, waits, end, newestTodos }: Props) {
  const { t } = useI18n();
  const id = useId();
  const args = useMemo(() => use && argsOf(use), [use]);
  const edited = use && args?.whole && isEdited(reviewed, use.name, args.proposed) ? reviewed : undefined;
  const name = edited?.name ?? use?.name ?? result?.name ?? "";
  const status = statusOf({ use, result, waits, end }, args?.whole !== false);
  const [chosen, setOpen] = useState<boolean>();
  // While the agent works, its list is shown elsewhere; afterwards it is here.
  const open = chosen ?? (newestTodos === true && end !== undefined && args?.todos !== undefined);
  // The message describes the proposed call.
  const message = edited ? undefined : use?.toolContentMessage;
  return (
    <div className="tool" data-status={status}>
      <button type="button" className="tool-row" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <Icon name="chevron" />
        {message !== undefined && (
          <span className="tool-message">
            <Visible text={message} strict />
          </span>
        )}
        <code className="tool-name">
          <Visible text={name} />
        </code>
        <span className="tool-preview" aria-hidden="true">
          {message === undefined && args && !open && <Visible text={edited ? lineOf(stringifyJson(edited.args)) : args.line} strict />}
        </span>
        {edited && (
          <span className="outcome" data-edited>
            {t("tool.edited")}
          </span>
        )}
        <span className="tool-status">
          {status === "running" || status === "preparing" ? <span className="pulse" aria-hidden="true" /> : null}
          {status && wordText(t, "tool.status", status)}
        </span>
      </button>
      {open && (
        <div id={id} className="tool-body">
          {edited && args ? (
            <>
              <h3 className="eyebrow">{t(edited.by === undefined ? "tool.argsEdited" : "tool.argsEditedBy", { name: personName(edited.by, t) })}</h3>
              <pre tabIndex={0}>
                <Visible text={prettyJson(stringifyJson(edited.args))} />
              </pre>
              <h3 className="eyebrow">{t("tool.proposed")}</h3>
              <Changes names={[use?.name ?? "", edited.name]} before={args.proposed ?? {}} after={edited.args} />
            </>
          ) : args?.todos ? (
            <TodoList todos={args.todos} />
          ) : (
            args && (
              <>
                <h3 className="eyebrow">{t("tool.args")}</h3>
                <pre tabIndex={0}>
                  <Visible text={args.pretty} />
                </pre>
              </>
            )
          )}
          {result && !(args?.todos && result.status === "success") && (
            <>
              <h3 className="eyebrow">{t("tool.result")}</h3>
              {result.content ? (
                <pre tabIndex={0}>
                  <Visible text={prettyJson(result.content)} />
                </pre>
              ) : (
                <p className="muted">{t("tool.noResult")}</p>
              )}
            </>
          )}
        </div>
      )}
    </div>
  );
}

/** A call whose result the server does not stream has no status: it may well have run. */
function statusOf({ use, result, waits, end }: Props, whole: boolean) {
  if (result && !result.open) return result.status;
  if (waits) return waits;
  if (end === "ended") return undefined;
  // A call that the model had not finished when the turn failed does not count as one.
  if (end === "cut" || (end === "failed" && !whole)) return "stopped";
  if (end === "failed") return "failed";
  return use?.open ? "preparing" : "running";
}

/** The arguments as its tool gets them; as they came while they are not complete. */
function argsOf(use: ToolUse) {
  const args = toolArgs(use);
  const json = args ? stringifyJson(args) : use.json;
  return {
    whole: args !== undefined,
    proposed: args,
    line: lineOf(json),
    pretty: prettyJson(json),
    todos: use.name === "write_todos" ? todosOf(args) : undefined,
  };
}

const lineOf = (json: string) => (json === "{}" ? "" : json.replace(/\s+/g, " ").slice(0, 200));
