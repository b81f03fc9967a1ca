/** Light, dark, or the system's setting. The style sheet does the rest through `color-scheme`. */
import { readLocal, writeLocal } from "./storage.js";

export type Theme = "system" | "light" | "dark";
export const themes: Theme[] = ["system", "light", "dark"];

export function storedTheme(): Theme {
  const stored = readLocal("theme");
  return stored === "light" || stored === "dark" ? stored : "system";
}

export function applyTheme(theme: Theme = storedTheme()): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(theme: Theme): void {
  writeLocal("theme", theme === "system" ? null : theme);
  applyTheme(theme);
}
