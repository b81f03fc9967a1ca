// @vitest-environment jsdom
import { act, createElement as h } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { CountersignError } from "@countersign/client";
import { readDraft } from "@countersign/react";
import { Composer } from "../src/components/Composer.js";
import { NewSession } from "../src/components/NewSession.js";
import { keepDraftImages } from "../src/lib/useDraftImages.js";
import { client } from "../src/state/connection.js";
import { outgoingOf } from "../src/state/sessions.js";
import { click, show, write } from "./page.js";

let refuse: (error: CountersignError) => void;
const onSend = () => new Promise<never>((_, reject) => (refuse = reject));
const composer = h(Composer, { draftKey: "draft:s", onSend });
const field = (page: Element) => page.querySelector<HTMLTextAreaElement>("textarea")!;
const refused = () => act(async () => refuse(new CountersignError("store_unavailable", "Too much at once.")));

async function send(page: Element, text: string) {
  await write(field(page), text);
  await click(page.querySelector("[type=submit]"));
}

beforeEach(() => {
  vi.stubGlobal("matchMedia", () => ({ matches: false }));
});

test("u1: a refused message comes back to its field, also where that was left meanwhile", async () => {
  for (const meanwhile of ["stays", "leaves", "leaves and comes back"]) {
    const { page, draw, leave } = await show(composer);
    await send(page, "Buy 100 VNM");
    expect(field(page).value).toBe("");
    if (meanwhile !== "stays") await leave();
    if (meanwhile === "leaves and comes back") await draw(composer);
    await refused();
    if (meanwhile === "leaves") await draw(composer);
    expect(field(page).value, meanwhile).toBe("Buy 100 VNM");
    expect(readDraft("draft:s")).toBe("Buy 100 VNM");
    sessionStorage.clear();
    await leave();
  }
});

test("u1: a refused message does not replace what somebody has written since", async () => {
  const { page, draw, leave } = await show(composer);
  await send(page, "Buy 100 VNM");
  await leave();
  await draw(composer);
  await write(field(page), "Sell");
  await refused();
  expect(field(page).value).toBe("Sell");
  // It comes back once that is cleared.
  await write(field(page), "");
  expect(field(page).value).toBe("Buy 100 VNM");
});

test("u1: no refused message is lost, however many there are", async () => {
  const refusals: (() => void)[] = [];
  const onSend = () => new Promise<never>((_, reject) => refusals.push(() => reject(new Error("Too much at once."))));
  const several = h(Composer, { draftKey: "draft:s", onSend });
  const { page, draw, leave } = await show(several);
  const again = () => click(page.querySelector("[type=submit]"));
  for (const text of ["First", "Second", "Third"]) await send(page, text);
  await write(field(page), "Fourth");
  await act(async () => refusals.forEach((refuse) => refuse()));
  await leave();
  // A reload finds them, too.
  vi.resetModules();
  const { returnedTo } = await import("../src/lib/returned.js");
  expect(returnedTo("draft:s").map(({ text }) => text)).toEqual(["First", "Second", "Third"]);
  await draw(several);
  for (const text of ["Fourth", "First", "Second", "Third"]) {
    expect(field(page).value).toBe(text);
    await again();
  }
  expect(field(page).value).toBe("");
});

test("u1: an image of a refused message comes back with its text, and not with another", async () => {
  keepDraftImages("draft:s", [{ type: "base64", media_type: "image/png", data: "AAAA" }]);
  const { page } = await show(h(Composer, { draftKey: "draft:s", onSend, takesImages: true }));
  const images = () => page.querySelectorAll(".attached img").length;
  await send(page, "What is on this passport?");
  await write(field(page), "Post this");
  await refused();
  expect([field(page).value, images()]).toEqual(["Post this", 0]);
  await click(page.querySelector("[type=submit]"));
  expect([field(page).value, images()]).toEqual(["What is on this passport?", 1]);
});

test("u1: a session that is not made takes nobody away from where they are, and says why where the message is", async () => {
  vi.spyOn(client, "sendMessage").mockImplementation(onSend);
  location.hash = "#/";
  const { page, draw, leave } = await show(h(NewSession, { onMenu: () => {} }));
  await send(page, "Buy 100 VNM");
  expect(location.hash).toMatch(/^#\/s\//);
  const id = location.hash.slice("#/s/".length);
  await leave();
  location.hash = "#/rules";
  await refused();
  expect(location.hash).toBe("#/rules");
  expect(outgoingOf(id).get().refused).toBeUndefined(); // The refusal is shown only here.
  await draw(h(NewSession, { onMenu: () => {} }));
  expect(field(page).value).toBe("Buy 100 VNM");
  expect(page.querySelector("[role=alert]")?.textContent).toContain("Too much at once.");

  // Also if the field is on the page already.
  await send(page, "Buy 200 VNM");
  location.hash = "#/";
  await refused();
  expect(field(page).value).toBe("Buy 200 VNM");
  expect(page.querySelector("[role=alert]")).not.toBeNull();
});

test("u1: the focus stays in the composer when an image is removed", async () => {
  keepDraftImages("draft:s", [1, 2].map((n) => ({ type: "base64" as const, media_type: "image/png" as const, data: String(n) })));
  const { page } = await show(h(Composer, { draftKey: "draft:s", onSend, takesImages: true }));
  const remove = async () => {
    const last = [...page.querySelectorAll<HTMLElement>(".attached button")].at(-1);
    last?.focus();
    await click(last);
  };
  for (const left of [1, 0]) {
    await remove();
    expect(page.querySelectorAll(".attached img")).toHaveLength(left);
    expect(document.activeElement).toBe(page.querySelector(".composer-box .icon-button"));
  }
});
