import { useId } from "react";
import { useI18n } from "../../i18n/index.js";

interface Props {
  reason: string;
  disabled: boolean;
  onReason: (reason: string) => void;
  onBack: () => void;
  onDecline: () => Promise<void>;
}

/** Not answering at all, with a word to the agent if one likes. */
export function DeclineForm({ reason, disabled, onReason, onBack, onDecline }: Props) {
  const { t } = useI18n();
  const id = useId();
  return (
    <form
      className="questions"
      onSubmit={(e) => {
        e.preventDefault();
        void onDecline();
      }}
      onKeyDown={(e) => e.key === "Escape" && !e.nativeEvent.isComposing && onBack()}
    >
      <div className="field">
        <label className="label" htmlFor={id}>
          {t("decide.reason")}
        </label>
        <textarea
          id={id}
          className="input"
          rows={2}
          autoFocus
          placeholder={t("question.reasonPlaceholder")}
          value={reason}
          disabled={disabled}
          onChange={(e) => onReason(e.target.value)}
        />
      </div>
      <div className="buttons">
        <button type="button" className="button quiet" disabled={disabled} onClick={onBack}>
          {t("decide.back")}
        </button>
        <button type="submit" className="button danger solid" disabled={disabled}>
          {t("question.decline")}
        </button>
      </div>
    </form>
  );
}
