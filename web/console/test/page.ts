/** Parts of the page, drawn as the page draws them. */
import { act, createElement as h, type ReactElement } from "react";
import { createRoot } from "react-dom/client";
import { afterEach } from "vitest";
import { Provided } from "../src/components/Provided.js";
import { catalogues } from "../src/i18n/all.js";
import type { MessageKey } from "../src/i18n/en.js";
import { I18nProvider, type Language } from "../src/i18n/index.js";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

// Features of browsers that jsdom or Node 20 lack.
Element.prototype.scrollIntoView ??= () => {};
Object.groupBy ??= <K extends PropertyKey, T>(items: Iterable<T>, key: (item: T, index: number) => K) => {
  const groups: Partial<Record<K, T[]>> = {};
  let i = 0;
  for (const item of items) (groups[key(item, i++)] ??= []).push(item);
  return groups;
};

const open: (() => void)[] = [];
afterEach(() => {
  for (const end of open.splice(0)) end();
  sessionStorage.clear();
  localStorage.clear();
});

/** Returns the page in a loaded language, with functions to draw it again and to remove it. */
export async function show(element: ReactElement, first: Language = "en") {
  const page = document.createElement("div");
  document.body.append(page);
  const root = createRoot(page);
  const draw = (now: ReactElement) => act(async () => root.render(h(I18nProvider, { first, children: h(Provided, { children: now }) })));
  const leave = () => act(async () => root.render(null));
  open.push(() => {
    act(() => root.unmount());
    page.remove();
  });
  await draw(element);
  return { page, draw, leave };
}

export const click = (target: Element | null | undefined) => act(async () => (target as HTMLElement).click());

/** Writes into a field, as a person would. */
export const write = (field: Element | null, text: string) =>
  act(async () => {
    const kind = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value")?.set?.call(field, text);
    field?.dispatchEvent(new Event("input", { bubbles: true }));
  });

/** The first button with this text. */
export const button = (page: Element, key: MessageKey) => [...page.querySelectorAll("button")].find((one) => one.textContent === catalogues.en[key]);
