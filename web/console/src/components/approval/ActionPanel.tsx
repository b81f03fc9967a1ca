/** One action of a request: what would run, and the means to decide about it. */
import { useCallback, useEffect, useId, useRef, type ReactNode, type RefObject } from "react";
import { allowedOf, configOf, type Action, type Always, type ApprovalView, type DecisionType } from "@countersign/client";
import { AgentSays, Arguments, PreviewText, useArgumentEdit, visibleText, type Lack } from "@countersign/react";
import { asksAnew, editApproves, needsSight, type FieldProblem } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import type { ActionDraft } from "../../lib/decisions.js";
import { alwaysChoices, readAlways, type Scope } from "../../lib/always.js";
import { serverNow } from "../../state/connection.js";
import { keysOn } from "../../state/keys.js";
import { useSubject } from "../../state/me.js";
import { useStore } from "../../state/store.js";
import { Icon, type IconName } from "../Icon.js";
import { ActionFacts } from "./ActionFacts.js";
import { AlwaysPanel } from "./AlwaysPanel.js";

interface Props {
  approval: ApprovalView;
  action: Action;
  index: number;
  draft: ActionDraft;
  /** Why the input cannot be sent; absent if it can. */
  lack: Lack | undefined;
  disabled: boolean;
  /** The state of sending, if the buttons here send. */
  sending: ReactNode;
  /** Others decide it: it is only shown. */
  readOnly: boolean;
  /** Whether everything that would run has been in view; otherwise it cannot be approved. */
  seen: boolean;
  onSeen: (index: number) => void;
  problems: FieldProblem[];
  onDraft: (draft: ActionDraft) => void;
  onPress: (choice: DecisionType | undefined) => void;
  onSend: () => void;
  /** The choices that this person may not make. */
  barred: (choice: DecisionType) => boolean;
  /** A decision that also applies to later calls is made. */
  onAlways: (draft: ActionDraft) => void;
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
  lack,
  disabled,
  sending,
  readOnly,
  seen,
  onSeen,
  problems,
  onDraft,
  onPress,
  onSend,
  barred,
  onAlways,
}: Props) {
  const { t } = useI18n();
  const id = useId();
  const onSeenHere = useCallback(() => onSeen(index), [onSeen, index]);
  const config = configOf(approval, index);
  const single = approval.actions.length === 1;
  const doubt = approval.kind === "in_doubt";

  // "Decide later" only means something beside actions that are decided now.
  const order: DecisionType[] = doubt ? ["respond", "approve", "reject"] : ["approve", "edit", "respond", "defer", "reject"];
  const choices = order.filter((c) => allowedOf(config).includes(c) && (c !== "defer" || !single));
  // Also said beside the buttons: the text to read may be far above them.
  const waitsForSight = !seen && choices.some((choice) => needsSight(choice) && !barred(choice));
  const label = (choice: DecisionType): string =>
    t(doubt && choice !== "edit" && choice !== "defer" ? `doubt.${choice}` : `decide.${choice}`);

  const shortcuts: typeof SHORTCUTS = useStore(keysOn) ? SHORTCUTS : {};
  const keys = choices
    .filter((c) => shortcuts[c] && !barred(c))
    .map((c) => `${shortcuts[c]?.toUpperCase()} ${label(c)}`)
    .join(t("text.list"));

  const open = (choice: DecisionType) => {
    if (!single && draft.choice === choice) return onPress(undefined);
    onPress(choice);
  };
  const chosen = readOnly ? undefined : draft.choice;
  const panel = chosen === "edit" || chosen === "reject" || chosen === "respond" ? chosen : undefined;
  const root = useRef<HTMLDivElement>(null);
  const user = useSubject(approval.sessionId);
  const always = alwaysChoices(approval, index, barred);
  const alwaysDraft = readOnly ? undefined : draft.alwaysDraft;
  useFocusOnChange(root, alwaysDraft ? "always" : draft.choice, panel !== undefined || alwaysDraft !== undefined, single);
  const edit = useArgumentEdit({
    approval,
    index,
    open: panel === "edit",
    draft: draft.edit,
    onDraft: (next) => onDraft({ ...draft, choice: "edit", edit: next }),
    problems,
    disabled,
  });

  const openAlways = () => {
    const { choice: _choice, always: _always, ...rest } = draft;
    onDraft({ ...rest, alwaysDraft: { choice: always[0]!, scope: "session", until: "" } });
  };
  const alwaysButton = (className: string) =>
    always.length > 0 && (
      <button type="button" className={className} data-choice="always" disabled={disabled} onClick={openAlways}>
        <Icon name="repeat" />
        {t("always.open")}
      </button>
    );

  return (
    <div ref={root} className="action" data-part="call" data-single={single || undefined} data-action={index} tabIndex={single ? undefined : -1}>
      {!single && <p className="eyebrow">{t("card.actionOf", { n: index + 1, of: approval.actions.length })}</p>}
      <ActionFacts action={action} config={config} showTitle={!single} showRole={differs(approval, index)} />

      {(panel !== "edit" || !seen) && <Arguments action={action} config={approval.step ? undefined : config} seen={seen} onSeen={onSeenHere} />}
      {edit.form}
      <PreviewText preview={edit.preview} />
      {!single && edit.changes}
      <AgentSays action={action} />
      {(panel === "reject" || alwaysDraft?.choice === "reject") && (
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

      {readOnly ? null : alwaysDraft ? (
        <AlwaysPanel
          sending={sending}
          action={action}
          choices={always}
          draft={alwaysDraft}
          user={user}
          disabled={disabled}
          unseen={!seen}
          single={single}
          onChange={(next) => onDraft({ ...draft, alwaysDraft: next })}
          onBack={() => onPress(undefined)}
          onConfirm={() => {
            const read = readAlways(alwaysDraft, serverNow());
            if (!read.ok) return;
            const { alwaysDraft: _form, ...rest } = draft;
            onAlways({ ...rest, choice: alwaysDraft.choice, always: read.always });
          }}
        />
      ) : single && panel ? (
        <div className="buttons">
          {edit.changes}
          <button type="button" className="button quiet" disabled={disabled} onClick={() => onPress(undefined)}>
            {t("decide.back")}
          </button>
          <button
            type="button"
            className={panel === "reject" ? "button danger solid" : "button primary"}
            disabled={disabled || lack !== undefined}
            onClick={onSend}
          >
            {panel === "edit"
              ? t(editApproves(config) && !asksAnew(config, edit.found) ? "decide.approveEdited" : "decide.askEdited")
              : panel === "reject"
                ? t(doubt ? "doubt.confirmReject" : "decide.confirmReject")
                : t("doubt.send")}
          </button>
          {sending}
        </div>
      ) : (
        <div
          className={single ? "buttons" : "buttons toggles"}
          role="group"
          aria-label={t("decide.group", { tool: visibleText(action.name) })}
        >
          {waitsForSight && (
            <p id={`${id}-sight`} className="hint warn">
              {t("shown.long")}
            </p>
          )}
          {choices.map((choice) => (
            <button
              key={choice}
              type="button"
              className={buttonClass(choice, single, doubt)}
              data-choice={choice}
              disabled={disabled || barred(choice) || (!seen && needsSight(choice))}
              aria-pressed={single ? undefined : draft.choice === choice}
              aria-keyshortcuts={shortcuts[choice]}
              aria-describedby={waitsForSight && needsSight(choice) ? `${id}-sight` : undefined}
              onClick={() => open(choice)}
            >
              <Icon name={icons[choice]} />
              {label(choice)}
            </button>
          ))}
          {alwaysButton(single ? "button quiet desk-only" : "button quiet")}
          {draft.always !== undefined && draft.choice !== undefined && (
            <span className="hint" role="status">
              {t("always.marked", { scope: t(`always.scope.${scopeOf(draft.always)}`) })}
            </span>
          )}
          {sending}
          {keys !== "" && <span className="hint keys">{t("card.keys", { list: keys })}</span>}
        </div>
      )}
      {/* On a phone the buttons stay in view while the request is read, and have one row. */}
      {single && !panel && !alwaysDraft && !readOnly && alwaysButton("link phone-only")}
    </div>
  );
}

/**
 * A choice replaces the buttons with a form, and back. The focus moves along, but only after a choice: a card that is
 * rendered with an open form after a reload must not take the focus.
 */
function useFocusOnChange(
  root: RefObject<HTMLDivElement | null>,
  choice: DecisionType | "always" | undefined,
  hasPanel: boolean,
  single: boolean,
): void {
  const before = useRef(choice);
  useEffect(() => {
    if (before.current === choice) return;
    before.current = choice;
    // If the buttons are toggles they stay, and the focus may stay too.
    const target = hasPanel ? ":is(.field, .fields, .always-scopes) :is(input:not([type=radio]:not(:checked)), textarea, select)" : single ? ".buttons button" : "";
    if (target) root.current?.querySelector<HTMLElement>(target)?.focus();
  }, [root, choice, hasPanel, single]);
}

const SHORTCUTS: Partial<Record<DecisionType, string>> = { approve: "a", reject: "r", edit: "e" };

function buttonClass(choice: DecisionType, single: boolean, doubt: boolean): string {
  if (!single) return "button";
  // If it is unknown whether a call ran, no answer is the obvious one.
  if (choice === "approve" && !doubt) return "button primary";
  return choice === "reject" ? "button danger" : "button";
}

const scopeOf = (always: Always): Scope => (typeof always === "boolean" ? "session" : always.scope);

/** Whether this action is decided by others than the first of its request. */
function differs(approval: ApprovalView, index: number): boolean {
  const [mine, first] = [configOf(approval, index), configOf(approval, 0)];
  return mine.role !== first.role || mine.level !== first.level || mine.levels?.join() !== first.levels?.join();
}
