import { useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { useI18n } from "../i18n/index.js";
import { useTabState } from "../lib/useTabState.js";
import { Icon } from "./Icon.js";

interface Props {
  draftKey: string;
  /** Why nothing can be sent now. Writing is always possible; the text is kept. */
  blocked?: ReactNode;
  onSend: (text: string) => Promise<void>;
  /** There is a turn to stop. */
  onStop?: (() => Promise<void>) | undefined;
  autoFocus?: boolean;
}

export function Composer({ draftKey, blocked, onSend, onStop, autoFocus }: Props) {
  const { t } = useI18n();
  const [text, setText] = useTabState(draftKey, () => "");
  const [stopping, setStopping] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const canSend = !blocked && text.trim() !== "";

  // As high as its text, up to the limit in the style sheet.
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight + 2}px`;
  }, [text]);

  useEffect(() => {
    // Not on touch screens, where it would open the keyboard over the page.
    if (autoFocus && matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, [autoFocus]);

  useEffect(() => {
    if (!onStop) setStopping(false);
  }, [onStop]);

  const send = () => {
    if (!canSend) return;
    const sent = text;
    setText("");
    // A refused message comes back into the field, unless something new is there already.
    onSend(sent).catch(() => field.current?.value === "" && setText(sent));
  };

  return (
    <form
      className="composer"
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      <div className="composer-box">
        <textarea
          ref={field}
          rows={1}
          aria-label={t("composer.label")}
          aria-describedby={`${draftKey}-hint`}
          placeholder={t("composer.placeholder")}
          value={text}
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            // While an input method composes (Telex, Pinyin), Enter belongs to it.
            if (e.key === "Enter" && !e.shiftKey && !e.nativeEvent.isComposing && e.keyCode !== 229) {
              e.preventDefault();
              send();
            }
          }}
        />
        {onStop && (
          <button
            type="button"
            className="button small"
            disabled={stopping}
            onClick={() => {
              setStopping(true);
              void onStop().finally(() => setStopping(false));
            }}
          >
            <Icon name="stop" />
            {stopping ? t("composer.stopping") : t("composer.stop")}
          </button>
        )}
        <button type="submit" className="button primary small" disabled={!canSend}>
          <Icon name="send" />
          {t("composer.send")}
        </button>
      </div>
      <div id={`${draftKey}-hint`} className="composer-hint">
        {blocked ?? t("composer.hint")}
      </div>
    </form>
  );
}
