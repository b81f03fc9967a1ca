import { useId } from "react";
import { useI18n } from "../../i18n/index.js";
import type { CardDraft } from "../../lib/decisions.js";
import { Icon } from "../Icon.js";

interface Props {
  draft: CardDraft;
  disabled: boolean;
  onChange: (draft: CardDraft) => void;
}

/** The reviewer's own words to the agent, beside the decision. Out of the way until wanted. */
export function Comment({ draft, disabled, onChange }: Props) {
  const { t } = useI18n();
  const id = useId();
  if (!draft.commentOpen) {
    return (
      <div className="comment-closed">
        <button
          type="button"
          className="link"
          disabled={disabled}
          onClick={() => onChange({ ...draft, commentOpen: true })}
        >
          <Icon name="comment" />
          {t("decide.addComment")}
        </button>
      </div>
    );
  }
  return (
    <div className="field comment">
      <label className="label" htmlFor={id}>
        {t("decide.comment")}
      </label>
      <textarea
        id={id}
        className="input"
        rows={2}
        autoFocus={draft.comment === ""}
        value={draft.comment}
        disabled={disabled}
        aria-describedby={`${id}-hint`}
        onChange={(e) => onChange({ ...draft, comment: e.target.value })}
        onKeyDown={(e) => e.key === "Escape" && draft.comment === "" && onChange({ ...draft, commentOpen: false })}
      />
      <p id={`${id}-hint`} className="hint">
        {t("decide.commentHint")}
      </p>
    </div>
  );
}
