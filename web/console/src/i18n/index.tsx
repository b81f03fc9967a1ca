/** The language of the page: chosen by the person, else the browser's, else English. */
import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import { readLocal, writeLocal } from "../lib/storage.js";
import { en, type Catalogue, type MessageKey } from "./en.js";
import { vi } from "./vi.js";
import { zh } from "./zh.js";

export const catalogues = { en, vi, zh } satisfies Record<string, Catalogue>;
export type Language = keyof typeof catalogues;

/** Each language under its own name, so that it can be found by those who read only that one. */
export const languageNames: Record<Language, string> = { en: "English", vi: "Tiếng Việt", zh: "中文" };

export type Params = Record<string, string | number>;
export type Translate = (key: MessageKey, params?: Params) => string;

export function translate(catalogue: Catalogue, key: MessageKey, params: Params = {}): string {
  // A key from what a newer server sends may be in no catalogue. That must not take the page with it.
  const text: string | undefined = Object.hasOwn(catalogue, key) ? catalogue[key] : undefined;
  if (text === undefined) return key;
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(params[name] ?? whole));
}

export function isMessageKey(key: string): key is MessageKey {
  return Object.hasOwn(en, key);
}

export function pickLanguage(stored: string | null, preferred: readonly string[]): Language {
  for (const tag of [stored ?? "", ...preferred]) {
    const language = tag.toLowerCase().split("-")[0] ?? "";
    if (Object.hasOwn(catalogues, language)) return language as Language;
  }
  return "en";
}

interface I18n {
  language: Language;
  setLanguage: (language: Language) => void;
  t: Translate;
}

const I18nContext = createContext<I18n | null>(null);

export function I18nProvider({ children }: { children: ReactNode }) {
  const [language, setState] = useState<Language>(() =>
    pickLanguage(readLocal("language"), navigator.languages ?? [navigator.language]),
  );
  useEffect(() => void (document.documentElement.lang = language), [language]);
  const setLanguage = useCallback((next: Language) => {
    writeLocal("language", next);
    setState(next);
  }, []);
  const value = useMemo<I18n>(
    () => ({ language, setLanguage, t: (key, params) => translate(catalogues[language], key, params) }),
    [language, setLanguage],
  );
  return <I18nContext value={value}>{children}</I18nContext>;
}

export function useI18n(): I18n {
  const value = useContext(I18nContext);
  if (!value) throw new Error("useI18n outside of I18nProvider");
  return value;
}
