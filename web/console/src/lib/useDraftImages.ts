import { useState } from "react";
import type { InlineImage } from "./images.js";

/** The images of messages that are being written. In memory only: a tab's storage has no room for them. */
const drafts = new Map<string, InlineImage[]>();

export function keepDraftImages(key: string, images: InlineImage[]): void {
  if (images.length === 0) drafts.delete(key);
  else drafts.set(key, images);
}

/** They stay while other sessions are looked at, and are gone after a reload. */
export function useDraftImages(key: string): [InlineImage[], (change: (images: InlineImage[]) => InlineImage[]) => void] {
  const [, draw] = useState(0);
  const change = (make: (images: InlineImage[]) => InlineImage[]) => {
    keepDraftImages(key, make(drafts.get(key) ?? []));
    draw((n) => n + 1);
  };
  return [drafts.get(key) ?? [], change];
}
