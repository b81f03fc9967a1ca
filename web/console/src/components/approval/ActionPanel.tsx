/** One action of a request: what would run, and the means to decide about it. */
import { useCallback, useEffect, useId, useMemo, useRef, type RefObject } from "react";
import type { Action, ApprovalView, DecisionType } from "@countersign/client";
import { useI18n } from "../../i18n/index.js";
import { allowedOf, configOf, needsSight, toDecision, type ActionDraft, type FieldProblem } from "../../lib/decisions.js";
import { fieldsOf, newEdit } from "../../lib/form.js";
import { visibleText } from "../../lib/visible.js";
import { Icon, type IconName } from "../Icon.js";
import { ActionFacts } from "./ActionFacts.js";
import { ArgEditor } from "./ArgEditor.js";
import { AgentSays } from "./AgentSays.js";
import { ShownArgs } from "./ShownArgs.js";

interface Props {
  approval: ApprovalView;
  action: Action;
  index: number;
  draft: ActionDraft;
  disabled: boolean;
  /** Whether all that would run has been in view; what has not is not approved. */
  seen: boolean;
  onSeen: (index: number) => void;
  problems: FieldProblem[];
  onDraft: (draft: ActionDraft) => void;
  onPress: (choice: DecisionType | undefined) => void;
  onSend: () => void;
}

const icons: Record<DecisionType, IconName> = {
  approve: "check",
  reject: "cross",
  edit: "pencil",
  respond: "comment",
  defer: "clock",
};

export function ActionPanel({
  approval,
  action,
  index,
  draft,
  disabled,
  seen,
  onSeen,
  problems,
  onDraft,
  onPress,
  onSend,
}: Props) {
  const { t } = useI18n();
  const id = useId();
  const onSeenHere = useCallback(() => onSeen(index), [onSeen, index]);
  const config = configOf(approval, index);
  const single = approval.actions.length === 1;
  const doubt = approval.kind === "in_doubt";
  const fields = useMemo(() => fieldsOf(config.args_schema, action.args), [config.args_schema, action.args]);
  const edit = draft.edit ?? newEdit(fields, action.args);

  // "Decide later" only means something beside actions that are decided now.
  const order: DecisionType[] = doubt ? ["respond", "approve", "reject"] : ["approve", "edit", "respond", "defer", "reject"];
  const choices = order.filter((c) => allowedOf(config).includes(c) && (c !== "defer" || !single));
  const label = (choice: DecisionType): string =>
    t(doubt && choice !== "edit" && choice !== "defer" ? `doubt.${choice}` : `decide.${choice}`);

  const keys = choices
    .filter((c) => shortcuts[c])
    .map((c) => `${shortcuts[c]?.toUpperCase()} ${label(c)}`)
    .join(", ");

  const open = (choice: DecisionType) => {
    if (!single && draft.choice === choice) return onPress(undefined);
    if (choice === "edit" && !draft.edit) return onDraft({ ...draft, choice, edit });
    onPress(choice);
  };
  const panel = draft.choice === "edit" || draft.choice === "reject" || draft.choice === "respond" ? draft.choice : undefined;
  const root = useRef<HTMLDivElement>(null);
  useFocusOnChange(root, draft.choice, panel !== undefined, single);
  const sendable = toDecision(action, config, { ...draft, edit }) !== undefined;

  return (
    <div ref={root} className="action" data-single={single || undefined}>
      {!single && <p className="eyebrow">{t("card.actionOf", { n: index + 1, of: approval.actions.length })}</p>}
      <ActionFacts action={action} config={config} showTitle={!single} />

      {(panel !== "edit" || !seen) && <ShownArgs action={action} seen={seen} onSeen={onSeenHere} />}
      {panel === "edit" && (
        <ArgEditor
          original={action.args}
          fields={fields}
          draft={edit}
          problems={problems}
          disabled={disabled}
          onChange={(next) => onDraft({ ...draft, choice: "edit", edit: next })}
        />
      )}
      <AgentSays action={action} />
      {panel === "reject" && (
        <div className="field">
          <label className="label" htmlFor={`${id}-reason`}>
            {t("decide.reason")}
          </label>
          <textarea
            id={`${id}-reason`}
            className="input"
            rows={2}
            placeholder={t("decide.reasonPlaceholder")}
            value={draft.reason}
            disabled={disabled}
            onChange={(e) => onDraft({ ...draft, reason: e.target.value })}
          />
        </div>
      )}
      {panel === "respond" && (
        <div className="field">
          <label className="label" htmlFor={`${id}-output`}>
            {t("decide.output")}
          </label>
          <textarea
            id={`${id}-output`}
            className="input mono"
            rows={3}
            spellCheck={false}
            value={draft.output}
            disabled={disabled}
            onChange={(e) => onDraft({ ...draft, output: e.target.value })}
          />
        </div>
      )}

      {single && panel ? (
        <div className="buttons">
          <button type="button" className="button quiet" disabled={disabled} onClick={() => onPress(undefined)}>
            {t("decide.back")}
          </button>
          <button
            type="button"
            className={panel === "reject" ? "button danger solid" : "button primary"}
            disabled={disabled || !sendable || (!seen && needsSight(panel))}
            onClick={onSend}
          >
            {panel === "edit"
              ? t("decide.approveEdited")
              : panel === "reject"
                ? t(doubt ? "doubt.confirmReject" : "decide.confirmReject")
                : t("doubt.send")}
          </button>
        </div>
      ) : (
        <div
          className={single ? "buttons" : "buttons toggles"}
          role="group"
          aria-label={t("decide.group", { tool: visibleText(action.name) })}
        >
          {choices.map((choice) => (
            <button
              key={choice}
              type="button"
              className={buttonClass(choice, single, doubt)}
              data-choice={choice}
              disabled={disabled || (!seen && needsSight(choice))}
              aria-pressed={single ? undefined : draft.choice === choice}
              aria-keyshortcuts={single ? shortcuts[choice] : undefined}
              onClick={() => open(choice)}
            >
              <Icon name={icons[choice]} />
              {label(choice)}
            </button>
          ))}
          {single && <span className="hint keys">{t("card.keys", { list: keys })}</span>}
        </div>
      )}
    </div>
  );
}

/**
 * Choosing replaces the buttons by a form, and back. The focus goes along, but only after a choice: a card
 * that is drawn with an open form after a reload must not take the focus.
 */
function useFocusOnChange(
  root: RefObject<HTMLDivElement | null>,
  choice: DecisionType | undefined,
  hasPanel: boolean,
  single: boolean,
): void {
  const before = useRef(choice);
  useEffect(() => {
    if (before.current === choice) return;
    before.current = choice;
    // Where the buttons are toggles they stay, and so may the focus.
    const target = hasPanel ? ":is(.field, .fields) :is(input, textarea, select)" : single ? ".buttons button" : "";
    if (target) root.current?.querySelector<HTMLElement>(target)?.focus();
  }, [root, choice, hasPanel, single]);
}

const shortcuts: Partial<Record<DecisionType, string>> = { approve: "a", reject: "r", edit: "e" };

function buttonClass(choice: DecisionType, single: boolean, doubt: boolean): string {
  if (!single) return "button";
  // Where it is unknown whether a call ran, no answer is the obvious one.
  if (choice === "approve" && !doubt) return "button primary";
  return choice === "reject" ? "button danger" : "button";
}
