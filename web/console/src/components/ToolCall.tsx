import { useId, useState } from "react";
import type { BlockView } from "@countersign/client";
import { useI18n } from "../i18n/index.js";
import { prettyJson } from "../lib/values.js";
import { Icon } from "./Icon.js";
import { Visible } from "./Visible.js";

export type ToolUse = Extract<BlockView, { type: "tool_use" }>;
export type ToolResult = Extract<BlockView, { type: "tool_result" }>;

interface Props {
  use?: ToolUse | undefined;
  result?: ToolResult | undefined;
  /** A person has to decide about this call. */
  waits: boolean;
  /** Its turn has ended, normally or cut off, so nothing more will come. */
  end: "ended" | "cut" | undefined;
}

/** One row for a call and its result; it opens to show both in full. */
export function ToolCall({ use, result, waits, end }: Props) {
  const { t } = useI18n();
  const [open, setOpen] = useState(false);
  const id = useId();
  const name = use?.name ?? result?.name ?? "";
  const status = statusOf({ use, result, waits, end });
  const args = use ? prettyJson(use.json || "{}") : undefined;
  return (
    <div className="tool" data-status={status}>
      <button type="button" className="tool-row" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
        <Icon name="chevron" />
        <code className="tool-name">
          <Visible text={name} />
        </code>
        <span className="tool-preview" aria-hidden="true">
          {args && !open && <Visible text={oneLine(use?.json ?? "")} />}
        </span>
        <span className="tool-status">
          {status === "running" || status === "preparing" ? <span className="pulse" aria-hidden="true" /> : null}
          {status && t(`tool.status.${status}`)}
        </span>
      </button>
      {open && (
        <div id={id} className="tool-body">
          {args !== undefined && (
            <>
              <h3 className="eyebrow">{t("tool.args")}</h3>
              <pre tabIndex={0}>
                <Visible text={args} />
              </pre>
            </>
          )}
          {result && (
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

/** Nothing is said of a call whose result the server does not stream: it may well have run. */
function statusOf({ use, result, waits, end }: Props) {
  if (result && !result.open) return result.status;
  if (waits) return "waiting";
  if (end === "cut") return "stopped";
  if (end === "ended") return undefined;
  return use?.open ? "preparing" : "running";
}

const oneLine = (json: string) => (json === "{}" ? "" : json.replace(/\s+/g, " ").slice(0, 200));
