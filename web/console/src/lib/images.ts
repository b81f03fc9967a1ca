/** Images in messages that are being written. */
import type { ImageContent, ImageSource } from "@countersign/client";

/** An image on its way to the server. */
export type InlineImage = Extract<ImageSource, { type: "base64" }>;

/**
 * The maximum number of images in one message from here; with `KEPT_BYTES` of `readImage.ts` they stay within the
 * server's limits.
 */
export const MOST_IMAGES = 10;

/** The content that is sent: models do best if the images come before the text about them. */
export function contentOf(text: string, images: InlineImage[]): string | (ImageContent | { type: "text"; text: string })[] {
  if (images.length === 0) return text;
  const blocks = images.map((source): ImageContent => ({ type: "image", source }));
  return text.trim() === "" ? blocks : [...blocks, { type: "text", text }];
}

/** The images among files, as a list of files gives them. */
export const imageFiles = (files: Iterable<File> | null | undefined): File[] =>
  [...(files ?? [])].filter((file) => file.type.startsWith("image/"));
