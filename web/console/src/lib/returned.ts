/** Refused messages, on their way back to the field from which they were sent: it may be gone by then, or remounted. */
import { keepDraft, readDraft } from "@countersign/react";
import { gone } from "../state/connection.js";
import { Store } from "../state/store.js";
import type { InlineImage } from "./images.js";

interface Message {
  text: string;
  images: InlineImage[];
}

/** By the key of the field's draft. */
export const returned = new Store<ReadonlyMap<string, Message>>(new Map());

export function giveBack(key: string, message: Message): void {
  if (gone.get()) return;
  // A reload before the field is rendered again loses at most the images.
  if (!readDraft<string>(key)) keepDraft(key, message.text);
  returned.set((all) => new Map(all).set(key, message));
}

export function takeBack(key: string): void {
  returned.set((all) => new Map([...all].filter(([other]) => other !== key)));
}
