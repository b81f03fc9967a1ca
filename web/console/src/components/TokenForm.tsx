import { useState, type FormEvent } from "react";
import { useI18n } from "../i18n/index.js";
import { setToken, tokenEnded, tokenRefused } from "../state/connection.js";
import { useStore } from "../state/store.js";
import { Icon } from "./Icon.js";
import { Preferences } from "./Preferences.js";

/** Shown instead of the page while the server answers 401. */
export function TokenForm() {
  const { t } = useI18n();
  const refused = useStore(tokenRefused);
  const ended = useStore(tokenEnded);
  const [text, setText] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) setToken(text.trim());
  };
  return (
    <main className="token-page">
      <form className="token-form" onSubmit={submit}>
        <img src="./favicon.svg" alt="" width="40" height="40" />
        <h1>{t("token.heading")}</h1>
        {ended === undefined ? (
          <p className="muted">{t("token.text")}</p>
        ) : (
          <div className="notice token-ended" role="alert">
            <Icon name="warning" />
            <div>
              <p>{t("token.ended")}</p>
              {ended && (
                <p className="refusal-reason">
                  {t("refusal.reason")}<span lang="en">{ended}</span>
                </p>
              )}
            </div>
          </div>
        )}
        <label className="label" htmlFor="token">
          {t("token.label")}
        </label>
        <input
          id="token"
          className="input"
          type="password"
          autoComplete="off"
          autoFocus
          value={text}
          onChange={(e) => setText(e.target.value)}
          aria-invalid={refused || undefined}
          aria-describedby={refused ? "token-wrong token-kept" : "token-kept"}
        />
        {refused && (
          <p id="token-wrong" className="field-error" role="alert">
            {t("token.wrong")}
          </p>
        )}
        <p id="token-kept" className="hint">
          {t("token.kept")}
        </p>
        <button type="submit" className="button primary wide" disabled={!text.trim()}>
          {t("token.submit")}
        </button>
      </form>
      <Preferences />
    </main>
  );
}
