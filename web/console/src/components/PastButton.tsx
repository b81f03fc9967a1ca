/** The earlier points of a session, and continuing from one of them in a new session. */
import { useState } from "react";
import { useI18n } from "../i18n/index.js";
import { Icon } from "./Icon.js";
import { Past } from "./past/Past.js";

export function PastButton({ sessionId }: { sessionId: string }) {
  const { t } = useI18n();
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="link past-open" title={t("past.open")} onClick={() => setOpen(true)}>
        <Icon name="clock" />
        <span>{t("past.open")}</span>
      </button>
      {open && <Past sessionId={sessionId} onClose={() => setOpen(false)} />}
    </>
  );
}
