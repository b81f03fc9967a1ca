/** Images in messages: which of them may be shown, and how a file becomes one that can be sent. */
import { IMAGE_TYPES, type ImageContent, type ImageSource, type ImageType } from "@countersign/client";

/** An image on its way to the server. */
export type InlineImage = Extract<ImageSource, { type: "base64" }>;

/** The maximum number of images in one message from here; with `KEPT_BYTES` they stay within the server's limits. */
export const MOST_IMAGES = 10;
/**
 * A file up to this size is sent unchanged. Large frames would hold up the connection, and models scale images down
 * anyway.
 */
const KEPT_BYTES = 512 * 1024;
/** The longer side of a scaled-down image: the size that models use. */
const LONGER_SIDE = 1568;

const isType = (type: string): type is ImageType => (IMAGE_TYPES as readonly string[]).includes(type);

/** How an image of a message is shown. */
export type ShownImage =
  | { kind: "here"; src: string }
  /** Somebody else's host, which must not learn who reads the message: it is only a link. */
  | { kind: "elsewhere"; host: string; url: string }
  | { kind: "unknown" };

export function shownImage(source: ImageSource): ShownImage {
  if (source.type === "base64") {
    const isImage = isType(source.media_type) && /^[A-Za-z0-9+/=]+$/.test(source.data);
    return isImage ? { kind: "here", src: `data:${source.media_type};base64,${source.data}` } : { kind: "unknown" };
  }
  const url = source.type === "url" && URL.canParse(source.url) ? new URL(source.url) : undefined;
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  return url && isWeb ? { kind: "elsewhere", host: url.host, url: url.href } : { kind: "unknown" };
}

/** The content that is sent: models do best if the images come before the text about them. */
export function contentOf(text: string, images: InlineImage[]): string | (ImageContent | { type: "text"; text: string })[] {
  if (images.length === 0) return text;
  const blocks = images.map((source): ImageContent => ({ type: "image", source }));
  return text.trim() === "" ? blocks : [...blocks, { type: "text", text }];
}

/** The images among files, as a list of files gives them. */
export const imageFiles = (files: Iterable<File> | null | undefined): File[] =>
  [...(files ?? [])].filter((file) => file.type.startsWith("image/"));

/** A file as an image that can be sent, scaled down if it is large. Throws if the browser cannot read it. */
export async function readImage(file: Blob): Promise<InlineImage> {
  // The bytes decide its type, as on the server; a file's own type only follows from its name.
  const type = typeOf(new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  if (type && file.size <= KEPT_BYTES) return { type: "base64", media_type: type, data: await base64(file) };
  const bitmap = await createImageBitmap(file);
  try {
    for (const [side, quality] of [[LONGER_SIDE, 0.85], [LONGER_SIDE, 0.6], [LONGER_SIDE / 2, 0.6]] as const) {
      const blob = await asJpeg(bitmap, side, quality);
      if (blob.size <= KEPT_BYTES) return { type: "base64", media_type: "image/jpeg", data: await base64(blob) };
    }
  } finally {
    bitmap.close();
  }
  throw new Error("the image cannot be made small enough");
}

/** The type of an image, by its first bytes. */
export function typeOf(bytes: Uint8Array): ImageType | undefined {
  const text = String.fromCharCode(...bytes.subarray(0, 12));
  if (text.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (text.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (/^GIF8[79]a/.test(text)) return "image/gif";
  if (/^RIFF[^]{4}WEBP/.test(text)) return "image/webp";
  return undefined;
}

async function asJpeg(bitmap: ImageBitmap, side: number, quality: number): Promise<Blob> {
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  if (!context) throw new Error("the browser cannot draw");
  // Transparent parts would become black.
  context.fillStyle = "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/jpeg", quality));
  if (!blob) throw new Error("the browser cannot write it");
  return blob;
}

async function base64(blob: Blob): Promise<string> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  // In pieces: each byte is an argument of the call.
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}
