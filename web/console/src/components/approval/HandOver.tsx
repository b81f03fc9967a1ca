import { useId, useRef, useState } from "react";
import { decidingRole, type ApprovalView } from "@countersign/client";
import { useDraft } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { composes } from "../../lib/composes.js";
import { roleName } from "../../lib/people.js";
import { useIntoView } from "../../lib/useIntoView.js";
import { useRequest } from "../../lib/useRequest.js";
import { client } from "../../state/connection.js";
import { Refused } from "../Refusal.js";

interface Props {
  approval: ApprovalView;
  /** The roles to which it may be handed. */
  roles: string[];
  /** Whether it was handed to one person before, so that it can be given back to all who hold the role. */
  assigned: boolean;
  onClose: () => void;
}

/** Hands it to another role, to one person, or both. */
export function HandOver({ approval, roles, assigned, onClose }: Props) {
  const { t } = useI18n();
  const id = useId();
  const box = useRef<HTMLFormElement>(null);
  useIntoView(box);
  const now = decidingRole(approval);
  // The session's owner is a single person, so there is nobody within that role to hand it to.
  const choices = [...(now === undefined ? [] : [now]), ...roles.filter((role) => role !== now)];
  const [role, setRole] = useState(roles.find((r) => r !== now) ?? choices[0] ?? "");
  const [typed, setTyped] = useDraft(`hand:${approval.approvalKey}`, () => ({ person: "", reason: "" }));
  const { person, reason } = typed;
  const { busy, error, run } = useRequest();
  const same = role === now;
  const ready = !busy && role !== "" && (!same || person.trim() !== "" || assigned);
  const send = async () => {
    if (!ready) return;
    const to = {
      session_id: approval.sessionId,
      approval_key: approval.approvalKey,
      ...(same ? {} : { role }),
      ...(person.trim() ? { subject: person.trim() } : {}),
      ...(reason.trim() ? { text: reason.trim() } : {}),
    };
    if (!(await run(() => client.reassign(to)))) return;
    setTyped(undefined);
    onClose();
  };
  return (
    <form
      ref={box}
      className="talk-form"
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
      onKeyDown={(e) => e.key === "Escape" && !composes(e) && onClose()}
    >
      <div className="talk-fields">
        <div className="field">
          <label className="label" htmlFor={`${id}-role`}>
            {t("hand.role")}
          </label>
          <select
            id={`${id}-role`}
            className="select"
            autoFocus
            value={role}
            disabled={busy}
            onChange={(e) => setRole(e.target.value)}
          >
            {choices.map((choice) => (
              <option key={choice} value={choice}>
                {choice === now ? t("hand.same", { role: roleName(choice, t) }) : roleName(choice, t)}
              </option>
            ))}
          </select>
        </div>
        <div className="field">
          <label className="label" htmlFor={`${id}-person`}>
            {t(same && !assigned ? "hand.personNeeded" : "hand.person")}
          </label>
          <input
            id={`${id}-person`}
            className="input"
            autoComplete="off"
            spellCheck={false}
            value={person}
            disabled={busy}
            aria-describedby={`${id}-hint`}
            onChange={(e) => setTyped({ ...typed, person: e.target.value })}
          />
        </div>
      </div>
      <p id={`${id}-hint`} className="hint">
        {t("hand.hint", { role: roleName(role, t) })}
      </p>
      <div className="field">
        <label className="label" htmlFor={`${id}-reason`}>
          {t("hand.reason")}
        </label>
        <input
          id={`${id}-reason`}
          className="input"
          autoComplete="off"
          value={reason}
          disabled={busy}
          onChange={(e) => setTyped({ ...typed, reason: e.target.value })}
        />
      </div>
      <Refused error={error} />
      <div className="buttons">
        <button type="button" className="button quiet small" disabled={busy} onClick={onClose}>
          {t("decide.back")}
        </button>
        <button type="submit" className="button small" disabled={!ready}>
          {t("hand.send")}
        </button>
      </div>
    </form>
  );
}
