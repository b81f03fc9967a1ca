/** A modal dialog with a heading. */
import { useId, useLayoutEffect, useRef, type ReactNode } from "react";
import { settlingOf } from "@countersign/react";
import { useI18n } from "../i18n/index.js";
import { client } from "../state/connection.js";
import { Icon } from "./Icon.js";

interface Props {
  heading: string;
  className?: string;
  /** Whether work is under way, during which it stays open. */
  busy?: boolean;
  /** A click beside it closes it: nothing in it can be lost. */
  lightDismiss?: boolean;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ heading, className = "", busy = false, lightDismiss = false, onClose, children }: Props) {
  const { t } = useI18n();
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    // Removed from the page while open, it would not give the focus back.
    return () => {
      shown?.close();
      // The second press of a double click in it must not decide what was beneath.
      settlingOf(client).settle();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      className={`dialog ${className}`}
      aria-labelledby={id}
      onCancel={(e) => {
        // The browser says "close" only at its next frame; until then the same button would not open it again.
        e.preventDefault();
        if (!busy) onClose();
      }}
      // A second Escape closes it without asking.
      onClose={() => (busy ? dialog.current?.showModal() : onClose())}
      onClick={(e) => lightDismiss && !busy && e.target === dialog.current && onClose()}
    >
      <div className="dialog-body">
        <div className="dialog-head">
          <h2 id={id}>{heading}</h2>
          <button type="button" className="icon-button" onClick={onClose} disabled={busy} aria-label={t("app.close")}>
            <Icon name="close" />
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}
