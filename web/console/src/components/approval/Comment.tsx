import { useId } from "react";
import { useI18n } from "../../i18n/index.js";
import { Icon } from "../Icon.js";

interface Props {
  /** `undefined`: no comment is wanted. */
  comment: string | undefined;
  disabled: boolean;
  onChange: (comment: string | undefined) => void;
}

/** The reviewer's own words to the agent, beside the decision. Hidden until wanted. */
export function Comment({ comment, disabled, onChange }: Props) {
  const { t } = useI18n();
  const id = useId();
  if (comment === undefined) {
    return (
      <div className="comment-closed">
        <button type="button" className="link" disabled={disabled} onClick={() => onChange("")}>
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
        autoFocus={comment === ""}
        value={comment}
        disabled={disabled}
        aria-describedby={`${id}-hint`}
        onChange={(e) => onChange(e.target.value)}
        onKeyDown={(e) => {
          if (e.key !== "Escape" || comment !== "") return;
          // Escape closes only this, and not the panel around it as well.
          e.stopPropagation();
          onChange(undefined);
        }}
      />
      <p id={`${id}-hint`} className="hint">
        {t("decide.commentHint")}
      </p>
    </div>
  );
}
