/** Refused messages, on their way back to the field from which they were sent: it may be gone by then, or remounted. */
import { keepDraft, readDraft } from "@countersign/react";
import { gone } from "../state/connection.js";
import { Store } from "../state/store.js";
import type { InlineImage } from "./images.js";

interface Message {
  text: string;
  images: InlineImage[];
}

/** By the key of the field's draft, the oldest first. */
export const returned = new Store<ReadonlyMap<string, Message[]>>(new Map());

const storedKey = (key: string) => `refused:${key}`;

/** The refused messages of a field, also from before a reload, which loses only their images. */
export const returnedTo = (key: string): Message[] => returned.get().get(key) ?? readDraft<Message[]>(storedKey(key)) ?? [];

export function giveBack(key: string, message: Message): void {
  if (!gone.get()) keep(key, [...returnedTo(key), message]);
}

/** Drops the oldest one, which is in the field again. */
export function takeBack(key: string): void {
  keep(key, returnedTo(key).slice(1));
}

function keep(key: string, messages: Message[]): void {
  const texts = messages.flatMap(({ text }) => (text === "" ? [] : [{ text, images: [] }]));
  keepDraft(storedKey(key), texts.length > 0 ? texts : undefined);
  returned.set((all) => new Map(all).set(key, messages));
}
