/**
 * The language of the page: chosen by the person, otherwise the browser's, otherwise English. Only its texts are
 * loaded.
 */
import { createContext, useCallback, useContext, useEffect, useMemo, useState, type ReactNode } from "react";
import { filled, type Labels } from "@countersign/react";
import { readLocal, writeLocal } from "../lib/storage.js";
import type { Catalogue, MessageKey } from "./en.js";

export type Language = "en" | "vi" | "zh";

/** The words of the shared components; refusals use the words of this page. */
type SharedLabels = Omit<Labels, "error">;

/** The words of the page, and of the shared components. */
interface Words {
  texts: Catalogue;
  labels: SharedLabels;
}

const loaders: Record<Language, () => Promise<Words>> = {
  en: async () => import("./en.js").then(({ en: texts, labels }) => ({ texts, labels })),
  vi: async () => import("./vi.js").then(({ vi: texts, labels }) => ({ texts, labels })),
  zh: async () => import("./zh.js").then(({ zh: texts, labels }) => ({ texts, labels })),
};
const loaded = new Map<Language, Words>();

/** Load the texts of a language. Everything that shows texts comes after this. */
export async function loadLanguage(language: Language): Promise<void> {
  if (!loaded.has(language)) loaded.set(language, await loaders[language]());
}

function wordsOf(language: Language): Words {
  const words = loaded.get(language);
  if (!words) throw new Error(`the texts of ${language} are not loaded`);
  return words;
}

/** Each language under its own name, so that it can be found by those who read only that one. */
export const languageNames: Record<Language, string> = { en: "English", vi: "Tiếng Việt", zh: "中文" };

export type Params = Record<string, string | number>;
export type Translate = (key: MessageKey, params?: Params) => string;

export function translate(catalogue: Catalogue, key: MessageKey, params: Params = {}): string {
  // A key derived from a newer server's data may be in no catalogue. That must not break the page.
  const text: string | undefined = Object.hasOwn(catalogue, key) ? catalogue[key] : undefined;
  if (text === undefined) return key;
  return filled(text, params);
}

/** Every language has the same keys. */
export function isMessageKey(key: string): key is MessageKey {
  const [any] = loaded.values();
  return any !== undefined && Object.hasOwn(any.texts, key);
}

/** The text for a word of the server, or the word itself: a newer server may have more of them. */
export const wordText = (t: Translate, of: string, word: string): string => {
  const key = `${of}.${word}`;
  return isMessageKey(key) ? t(key) : word;
};

export function pickLanguage(stored: string | null, preferred: readonly string[]): Language {
  for (const tag of [stored ?? "", ...preferred]) {
    const language = tag.toLowerCase().split("-")[0] ?? "";
    if (Object.hasOwn(loaders, language)) return language as Language;
  }
  return "en";
}

interface I18n {
  language: Language;
  setLanguage: (language: Language) => void;
  t: Translate;
  /** Of the shared components. */
  labels: SharedLabels;
}

const I18nContext = createContext<I18n | null>(null);

/** The language to begin with. */
export function preferredLanguage(): Language {
  return pickLanguage(readLocal("language"), navigator.languages ?? [navigator.language]);
}

/** Load that language, or English if its texts cannot be loaded. */
export async function loadFirst(): Promise<Language> {
  const language = preferredLanguage();
  try {
    await loadLanguage(language);
    return language;
  } catch (error) {
    console.error(error);
    await loadLanguage("en");
    return "en";
  }
}

/** `first` is loaded: another language that a tab has chosen meanwhile may not be. */
export function I18nProvider({ first, children }: { first: Language; children: ReactNode }) {
  const [language, setState] = useState(first);
  useEffect(() => void (document.documentElement.lang = language), [language]);
  const setLanguage = useCallback((next: Language) => {
    writeLocal("language", next);
    // While the server is away the page stays readable as it is.
    loadLanguage(next).then(
      () => setState(next),
      (error: unknown) => console.error(error),
    );
  }, []);
  const value = useMemo<I18n>(() => {
    const { texts, labels } = wordsOf(language);
    return { language, setLanguage, labels, t: (key, params) => translate(texts, key, params) };
  }, [language, setLanguage]);
  return <I18nContext value={value}>{children}</I18nContext>;
}

export function useI18n(): I18n {
  const value = useContext(I18nContext);
  if (!value) throw new Error("useI18n outside of I18nProvider");
  return value;
}
