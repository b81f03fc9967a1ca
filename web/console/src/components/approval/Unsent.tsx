/** A notice that a reply came too late, with its content: nothing typed is lost silently. */
import { createContext, useContext, useEffect, useMemo, useState } from "react";
import type { ApprovalView } from "@countersign/client";
import { draftKey, keepDraft, readDraft, readReply, Visible, type Replying } from "@countersign/react";
import { useI18n } from "../../i18n/index.js";
import { commentKey, unsentTexts } from "../../lib/unsent.js";
import { useMe } from "../../state/me.js";
import { Icon } from "../Icon.js";
import { Refusal } from "../Refusal.js";

/** Called with a request's key and whether the group around it has to stay open. */
export const KeepOpen = createContext<(approvalKey: string, keep: boolean) => void>(() => {});

export function Unsent({ approval, replying }: { approval: ApprovalView; replying: Replying }) {
  const { t, labels } = useI18n();
  const { approvalKey } = approval;
  const { state } = replying;
  const { name } = useMe();
  const [reply, comment] = [draftKey(approval), commentKey(approval)];
  const [dropped, drop] = useState(false);
  const texts = useMemo(
    () => (dropped || state !== "idle" ? [] : unsentTexts(approval, readReply(approval), readDraft<string>(comment), name)),
    // The input does not change any more.
    [dropped, state, reply, approval.by, name],
  );
  const late = replying.error?.code === "approval_already_resolved" && !dropped ? replying.error : undefined;
  const shown = late !== undefined || texts.length > 0;
  const keepOpen = useContext(KeepOpen);
  useEffect(() => {
    keepOpen(approvalKey, shown);
    return () => keepOpen(approvalKey, false);
  }, [keepOpen, approvalKey, shown]);
  if (!shown) return null;
  return (
    <div className="notice late" role="alert">
      <Icon name="warning" />
      <div>
        <p>{late ? labels.late : t("card.lateUnsent")}</p>
        {late && <Refusal error={late} />}
        {texts.length > 0 && (
          <>
            <p>{t("card.unsent")}</p>
            {texts.map((text, i) => (
              <p key={i} className="quote">
                <Visible text={text} />
              </p>
            ))}
          </>
        )}
        <button
          type="button"
          className="link"
          onClick={() => {
            keepDraft(reply, undefined);
            keepDraft(comment, undefined);
            replying.clearError();
            drop(true);
          }}
        >
          {t("card.dropUnsent")}
        </button>
      </div>
    </div>
  );
}
