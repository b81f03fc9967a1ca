/** Gives a session a title. Enter saves it, Escape leaves it as it was. */
import { useEffect, useId, useRef, useState } from "react";
import { useI18n } from "../i18n/index.js";
import { announce } from "../lib/announce.js";
import { useRequest } from "../lib/useRequest.js";
import { http } from "../state/connection.js";
import { keepTitle } from "../state/lists.js";
import { Dialog } from "./Dialog.js";
import { Refused } from "./Refusal.js";

/** The server's limit, in characters and not in UTF-16 code units. */
const MOST = 200;

interface Props {
  sessionId: string;
  /** Its current title. */
  title: string | undefined;
  onClose: () => void;
}

export function RenameSession({ sessionId, title = "", onClose }: Props) {
  const { t } = useI18n();
  const { busy, error, run } = useRequest();
  const [text, setText] = useState(title);
  const field = useRef<HTMLInputElement>(null);
  const id = useId();
  const long = [...text.trim()].length > MOST;

  useEffect(() => {
    field.current?.focus();
    field.current?.select();
  }, []);

  const save = async () => {
    if (long || busy) return;
    // The automatic title, left as it is, stays automatic.
    const changed = text !== title;
    if (changed && !(await run(async () => keepTitle(await http.renameSession(sessionId, text))))) return;
    if (changed) announce(t("sessions.renamed"));
    onClose();
  };

  return (
    <Dialog heading={t("sessions.renameHeading")} busy={busy} onClose={onClose}>
      <form
        className="rename-body"
        onSubmit={(e) => {
          e.preventDefault();
          void save();
        }}
      >
        <div>
          <label className="label" htmlFor={id}>
            {t("sessions.title")}
          </label>
          <input
            ref={field}
            id={id}
            className="input"
            value={text}
            autoComplete="off"
            aria-invalid={long}
            aria-describedby={`${id}-hint`}
            onChange={(e) => setText(e.target.value)}
          />
          <p id={`${id}-hint`} className={long ? "field-error" : "hint"} role={long ? "alert" : undefined}>
            {t(long ? "sessions.titleLong" : "sessions.titleHint", { n: MOST })}
          </p>
        </div>
        <Refused error={error} />
        <div className="buttons">
          <button type="button" className="button quiet" disabled={busy} onClick={onClose}>
            {t("decide.back")}
          </button>
          <button type="submit" className="button primary" disabled={busy || long}>
            {t("sessions.renameConfirm")}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
