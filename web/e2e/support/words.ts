/** The texts of the page in its languages, so that a test finds what people read there. */
import { catalogues } from "../../console/src/i18n/all.js";
import type { MessageKey } from "../../console/src/i18n/en.js";
import type { Page } from "@playwright/test";

export const LANGUAGES = ["en", "vi", "zh"] as const;
export type Language = (typeof LANGUAGES)[number];
export type Words = (key: MessageKey, params?: Record<string, string | number>) => string;

export function wordsOf(language: Language): Words {
  return (key, params = {}) => catalogues[language][key].replace(/\{(\w+)\}/g, (whole, name: string) => String(params[name] ?? whole));
}

/** A tab that is in this language from its first page on. */
export async function speak(page: Page, language: Language): Promise<Words> {
  await page.addInitScript((l) => localStorage.setItem("countersign:language", l), language);
  return wordsOf(language);
}
