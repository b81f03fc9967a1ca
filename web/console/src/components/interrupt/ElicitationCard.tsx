/**
 * What an MCP server asks: its words, and a form to fill in or an address to open. Declining tells the server no,
 * cancelling that nobody has chosen. What was entered is kept until the request is resolved.
 */
import { useMemo, useRef, useState, type FormEvent } from "react";
import type { ApprovalView, JsonValue } from "@countersign/client";
import { AnswerFields, Arguments, focusWrong, useDraft, Visible, type Replying } from "@countersign/react";
import { elicitationForm, emptyAnswer, formProblems, problemsOf, readAnswer, type Address, type AnswerDraft, type Elicitation } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { draftKeys } from "../../lib/unsent.js";
import { useBar } from "../../state/me.js";
import { CardFrame } from "../approval/CardFrame.js";
import { People } from "../approval/People.js";
import { Icon } from "../Icon.js";
import { AskedBy } from "./AskedBy.js";

interface Props {
  approval: ApprovalView;
  submission: Replying;
  asked: Elicitation;
}

export function ElicitationCard({ approval, submission, asked }: Props) {
  const { t } = useI18n();
  const bar = useBar(approval);
  const form = useMemo(() => elicitationForm(asked), [approval.approvalKey]);
  const [draft, setDraft] = useDraft<AnswerDraft>(draftKeys(approval).reply, () => emptyAnswer(form));
  /** Asked to send what could not be read. */
  const [tried, setTried] = useState(false);
  const box = useRef<HTMLFormElement>(null);
  const busy = submission.state !== "no";
  const read = readAnswer(form, draft);
  const wrong = submission.error?.code === "invalid_resume" ? formProblems(problemsOf(submission.error.details)) : [];

  const send = async (resume: JsonValue) => {
    if (busy) return;
    if (await submission.send({ resume })) setDraft(undefined);
  };
  const accept = (event: FormEvent) => {
    event.preventDefault();
    if (asked.address) return void send({ action: "accept" });
    if (read.ok) return void send({ action: "accept", content: read.value });
    setTried(true);
    focusWrong(box.current);
  };
  return (
    <CardFrame
      approval={approval}
      submission={submission}
      problems={wrong.filter((p) => p.pointer === "").map((p) => ({ what: "", message: p.message }))}
    >
      <People approval={approval} bar={bar} />
      <div className="action interrupt">
        <AskedBy approval={approval} server={asked.from} />
        <Asked approval={approval} asked={asked} />
        {!bar && (
          <form ref={box} className="interrupt-form" noValidate onSubmit={accept}>
            {!asked.address && (form.kind === "field" || form.fields.length > 0) && (
              <AnswerFields
                form={form}
                draft={draft}
                errors={tried && !read.ok ? read.errors : {}}
                problems={wrong}
                disabled={busy}
                onDraft={(next) => {
                  submission.clearError();
                  setDraft(next);
                }}
              />
            )}
            <div className="buttons">
              <button type="submit" className="button primary" disabled={busy}>
                {t(asked.address ? "elicit.done" : "elicit.accept")}
              </button>
              <button type="button" className="button" disabled={busy} onClick={() => void send({ action: "decline" })}>
                {t("elicit.decline")}
              </button>
              <button type="button" className="button quiet" disabled={busy} onClick={() => void send({ action: "cancel" })}>
                {t("elicit.cancel")}
              </button>
            </div>
            <p className="hint">{t("elicit.hint")}</p>
          </form>
        )}
      </div>
    </CardFrame>
  );
}

/** The server's words, apart from the page's own, and where it wants people to go. */
export function Asked({ approval, asked }: Omit<Props, "submission">) {
  const { t } = useI18n();
  const action = approval.actions[0];
  return (
    <>
      <div className="agent-says server-says">
        <p className="label">
          <Icon name="comment" />
          {t("elicit.says")}
        </p>
        <p className="server-words" dir="auto">
          <Visible text={asked.message} />
        </p>
      </div>
      {asked.address && <AddressBox address={asked.address} />}
      {/* What could deceive the eye is looked at as the server writes it too, with its warnings. */}
      {action && (action.display?.warnings.length ?? 0) > 0 && <Arguments action={action} />}
    </>
  );
}

/** The whole address as text, and the host it really leads to. Nothing opens it but a person. */
function AddressBox({ address: { url, host, href } }: { address: Address }) {
  const { t } = useI18n();
  return (
    <div className="address">
      <p className="label">{t("elicit.address")}</p>
      <p className="address-text" dir="ltr">
        <Visible text={url} />
      </p>
      <p className="address-foot">
        {host !== "" && (
          <span className="fact">
            {t("elicit.host")}
            {t("text.colon")}
            <strong>
              <Visible text={host} />
            </strong>
          </span>
        )}
        {href === undefined ? (
          <span className="hint warn">{t("elicit.noLink")}</span>
        ) : (
          <a className="button small" href={href} target="_blank" rel="noopener noreferrer">
            {t("elicit.open")}
            <Icon name="outside" />
            <span className="visually-hidden">{t("text.paren", { text: t("elicit.newTab") })}</span>
          </a>
        )}
      </p>
    </div>
  );
}
