/**
 * What an MCP server asks: its words, and a form to fill in or an address to open. Declining tells the server no,
 * cancelling that nobody has chosen. What was entered is kept until the request is resolved.
 */
import { useMemo, type FormEvent } from "react";
import type { ApprovalView } from "@countersign/client";
import { Asked, useAnswer, type Replying } from "@countersign/react";
import { elicitationForm, formProblems, type Elicitation } from "@countersign/react/forms";
import { useI18n } from "../../i18n/index.js";
import { draftKeys } from "../../lib/unsent.js";
import { useBar } from "../../state/me.js";
import { CardFrame } from "../approval/CardFrame.js";
import { People } from "../approval/People.js";
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
  const busy = submission.state !== "no";
  const { formRef, fields, problems, send, submit } = useAnswer({ form, draftKey: draftKeys(approval).reply, replying: submission, problemsIn: formProblems });
  const accept = (event: FormEvent) => {
    event.preventDefault();
    if (asked.address) void send({ action: "accept" });
    else submit((content) => ({ action: "accept", content }));
  };
  return (
    <CardFrame approval={approval} submission={submission} problems={problems}>
      <People approval={approval} bar={bar} />
      <div className="action interrupt">
        <AskedBy approval={approval} named />
        <Asked approval={approval} asked={asked} />
        {!bar && (
          <form ref={formRef} className="interrupt-form" noValidate onSubmit={accept}>
            {!asked.address && (form.kind === "field" || form.fields.length > 0) && fields}
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
