import { useEffect, useState } from "react";
import { useConnection } from "@countersign/react";
import { useI18n } from "../i18n/index.js";

/** Silent while all is well: it appears only when there is no connection. */
export function ConnectionBadge() {
  const { t } = useI18n();
  const state = useConnection();
  const away = state !== "open";
  // The first connect takes a moment; a flash of "connecting" would only make the page look nervous.
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!away) return setShown(false);
    const timer = setTimeout(() => setShown(true), state === "reconnecting" ? 0 : 800);
    return () => clearTimeout(timer);
  }, [away, state]);
  return (
    <div className="connection" data-state={state} role="status">
      {away && shown && (
        <span className="connection-badge">
          <span className="dot" aria-hidden="true" />
          {t(state === "idle" ? "connection.connecting" : `connection.${state}`)}
        </span>
      )}
    </div>
  );
}
