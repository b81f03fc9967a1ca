/** The earlier points of a session, and going on from one of them in a new session. */
import { useEffect, useRef, useState } from "react";
import { useI18n } from "../i18n/index.js";
import { Icon } from "./Icon.js";
import { Past } from "./past/Past.js";

export function PastButton({ sessionId }: { sessionId: string }) {
  const { t } = useI18n();
  const [open, setOpen] = useState(false);
  const dialog = useRef<HTMLDialogElement>(null);

  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);

  return (
    <>
      <button type="button" className="link past-open" title={t("past.open")} onClick={() => setOpen(true)}>
        <Icon name="clock" />
        <span>{t("past.open")}</span>
      </button>
      <dialog
        ref={dialog}
        className="dialog"
        aria-labelledby="past-heading"
        onClose={() => setOpen(false)}
        onClick={(e) => e.target === dialog.current && setOpen(false)}
      >
        {open && (
          <div className="dialog-body">
            <div className="dialog-head">
              <h2 id="past-heading">{t("past.heading")}</h2>
              <button type="button" className="icon-button" onClick={() => setOpen(false)} aria-label={t("app.close")}>
                <Icon name="close" />
              </button>
            </div>
            <Past sessionId={sessionId} onForked={() => setOpen(false)} />
          </div>
        )}
      </dialog>
    </>
  );
}
