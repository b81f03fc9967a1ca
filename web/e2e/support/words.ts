/** The texts of the page in its languages, so that a test finds what people read there. */
import type { Labels } from "@countersign/react";
import { english } from "@countersign/react/en";
import { vietnamese } from "@countersign/react/vi";
import { chinese } from "@countersign/react/zh";
import { catalogues } from "../../console/src/i18n/all.js";
import type { MessageKey } from "../../console/src/i18n/en.js";
import type { Page } from "@playwright/test";

export const LANGUAGES = ["en", "vi", "zh"] as const;
export type Language = (typeof LANGUAGES)[number];
/** What the shared components say. */
export const labels: Record<Language, Labels> = { en: english, vi: vietnamese, zh: chinese };

/**
 * Every language, and each width in each appearance. These are four of the six pairs, since a main flow takes long: no style depends on
 * the language, so a language changes only how long texts are. They fit worst on a phone, where the two with the longest are tried.
 * Chinese on a phone and Vietnamese on a wide screen are left to `APPEARANCES`.
 */
export const EVERYWHERE = [
  ["en", 1280, "light"],
  ["en", 390, "dark"],
  ["vi", 390, "light"],
  ["zh", 1280, "dark"],
] as const;

/** Where a language is tried. */
export const placesOf = (language: Language) => EVERYWHERE.filter(([one]) => one === language);

/** For tests at both widths: every language, and each appearance. */
export const APPEARANCES = [
  ["en", "light"],
  ["vi", "dark"],
  ["zh", "light"],
] as const;

export type Words = (key: MessageKey, params?: Record<string, string | number>) => string;

export function wordsOf(language: Language): Words {
  return (key, params = {}) => catalogues[language][key].replace(/\{(\w+)\}/g, (whole, name: string) => String(params[name] ?? whole));
}

/** A tab that is in this language from its first page on. */
export async function speak(page: Page, language: Language): Promise<Words> {
  await page.addInitScript((l) => localStorage.setItem("countersign:language", l), language);
  return wordsOf(language);
}
