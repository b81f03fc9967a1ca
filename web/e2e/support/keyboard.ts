/** Using a page without a pointer. */
import { expect, type Locator, type Page } from "@playwright/test";

/** Come to something as people without a pointer do. */
export async function tabTo(page: Page, to: Locator): Promise<void> {
  await expect(to).toBeVisible();
  for (let step = 0; step < 120; step++) {
    if (await to.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`120 steps did not lead to ${to}`);
}

/** The focus is on something that is marked and in view; `movedOn`: the conversation may have moved on from there. */
export async function seesFocus(page: Page, { movedOn = false } = {}): Promise<void> {
  const message = "the focus is lost, or cannot be seen";
  await expect.poll(() => page.evaluate(whereIsFocus, movedOn), { message }).toBe("seen");
}

/** Whatever uses a pointer in this page fails its test. */
export async function withoutPointer(page: Page): Promise<void> {
  await page.addInitScript(() => {
    for (const kind of ["pointerdown", "mousedown", "touchstart"]) {
      addEventListener(kind, () => console.error("somebody has used a pointer"), { capture: true });
    }
  });
}

/** Come to something and press a key there; the focus is seen before and after it. */
export async function press(page: Page, to: Locator, key = "Enter", then = {}): Promise<void> {
  await tabTo(page, to);
  await seesFocus(page);
  // While cards move a press may be meant for what was there before, and does nothing. No person is that fast.
  await expect(page.locator("[data-settling]")).toHaveCount(0);
  await page.keyboard.press(key);
  await seesFocus(page, then);
}

/** Come to a field and replace its text. */
export async function write(page: Page, field: Locator, text: string): Promise<void> {
  await tabTo(page, field);
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
  await seesFocus(page);
}

/** Come to a list of choices and go down to one. */
export async function choose(page: Page, list: Locator, label: string): Promise<void> {
  await tabTo(page, list);
  const chosen = () => list.evaluate((one: HTMLSelectElement) => one.selectedOptions[0]?.label);
  for (let step = 0; step < 20 && (await chosen()) !== label; step++) await page.keyboard.press("ArrowDown");
  expect(await chosen()).toBe(label);
  await seesFocus(page);
}

/** In the page. */
function whereIsFocus(movedOn: boolean): string {
  const at = document.activeElement;
  if (!at || at === document.body) return "nothing has the focus";
  const box = at.getBoundingClientRect();
  const named = `${at.localName}.${at.className} "${(at.getAttribute("aria-label") ?? at.textContent ?? "").slice(0, 40)}"`;
  const inView = box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  if (!inView && !movedOn) return `out of view: ${named}`;
  // The mark may be around its container, as with a text field in a box.
  for (const part of [at, at.parentElement, at.parentElement?.parentElement]) {
    if (!part) continue;
    const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(part);
    if ((outlineStyle !== "none" && Number.parseFloat(outlineWidth) > 0) || boxShadow !== "none") return "seen";
  }
  return `not marked: ${named}`;
}
