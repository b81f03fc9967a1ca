/** In the header of a session: giving it a title. */
import { useState } from "react";
import { useI18n } from "../i18n/index.js";
import { Icon } from "./Icon.js";
import { RenameSession } from "./RenameSession.js";

/** `title`: its current title; `shown`: its name on this page, even without a title. */
export function RenameButton({ sessionId, title, shown }: { sessionId: string; title: string | undefined; shown: string }) {
  const { t } = useI18n();
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="link rename-open" aria-label={t("sessions.rename", { title: shown })} onClick={() => setOpen(true)}>
        <Icon name="pencil" />
        <span>{t("sessions.renameShort")}</span>
      </button>
      {open && <RenameSession sessionId={sessionId} title={title} onClose={() => setOpen(false)} />}
    </>
  );
}
