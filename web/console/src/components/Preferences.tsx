import { useState } from "react";
import { languageNames, useI18n, type Language } from "../i18n/index.js";
import { setTheme, storedTheme, themes, type Theme } from "../lib/theme.js";

/** Language and appearance. */
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
    </div>
  );
}
