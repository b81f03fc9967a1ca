import { useId, useState } from "react";
import { languageNames, useI18n, type Language } from "../i18n/index.js";
import { setTheme, storedTheme, themes, type Theme } from "../lib/theme.js";
import { notifying, setNotifying } from "../state/notify.js";
import { useStore } from "../state/store.js";

/** Language, appearance, and whether the browser notifies of requests. */
export function Preferences() {
  const { t, language, setLanguage } = useI18n();
  const [theme, setState] = useState(storedTheme);
  return (
    <div className="preferences">
      <select
        className="select small"
        aria-label={t("app.language")}
        value={language}
        onChange={(e) => setLanguage(e.target.value as Language)}
      >
        {Object.entries(languageNames).map(([code, name]) => (
          <option key={code} value={code} lang={code}>
            {name}
          </option>
        ))}
      </select>
      <select
        className="select small"
        aria-label={t("app.theme")}
        value={theme}
        onChange={(e) => {
          const next = e.target.value as Theme;
          setTheme(next);
          setState(next);
        }}
      >
        {themes.map((name) => (
          <option key={name} value={name}>
            {t(`app.theme.${name}`)}
          </option>
        ))}
      </select>
      <Notify />
    </div>
  );
}

function Notify() {
  const { t } = useI18n();
  const id = useId();
  const state = useStore(notifying);
  if (state === "unsupported") return null;
  return (
    <>
      <label className="notify">
        <input
          type="checkbox"
          role="switch"
          checked={state === "on"}
          aria-describedby={state === "denied" ? id : undefined}
          onChange={(e) => void setNotifying(e.target.checked)}
        />
        {t("notify.label")}
      </label>
      {state === "denied" && (
        <p id={id} className="hint" role="alert">
          {t("notify.denied")}
        </p>
      )}
    </>
  );
}
