import { useId } from "react";
import { useQuestionWords } from "./labels.js";

interface Props {
  reason: string;
  disabled: boolean;
  onReason: (reason: string) => void;
  onBack: () => void;
  onDecline: () => Promise<void>;
}

/** Declining to answer, with an optional message to the agent. */
export function DeclineForm({ reason, disabled, onReason, onBack, onDecline }: Props) {
  const { words, part } = useQuestionWords();
  const id = useId();
  return (
    <form
      {...part("questions")}
      onSubmit={(e) => {
        e.preventDefault();
        void onDecline();
      }}
      onKeyDown={(e) => e.key === "Escape" && !e.nativeEvent.isComposing && e.keyCode !== 229 && onBack()}
    >
      <div {...part("field")}>
        <label {...part("label")} htmlFor={id}>
          {words.reason}
        </label>
        <textarea
          id={id}
          {...part("input")}
          rows={2}
          autoFocus
          placeholder={words.reasonPlaceholder}
          value={reason}
          disabled={disabled}
          onChange={(e) => onReason(e.target.value)}
        />
      </div>
      <div {...part("buttons")}>
        <button type="button" {...part("back-quiet")} disabled={disabled} onClick={onBack}>
          {words.back}
        </button>
        <button type="submit" {...part("refuse")} disabled={disabled}>
          {words.decline}
        </button>
      </div>
    </form>
  );
}
