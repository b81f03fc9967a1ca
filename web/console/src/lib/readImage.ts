/** How a file becomes an image that can be sent. Loaded later: few messages have one. */
import type { ImageType } from "@countersign/client";
import type { InlineImage } from "./images.js";

/**
 * A file up to this size is sent unchanged. Large frames would hold up the connection, and models scale images down
 * anyway.
 */
const KEPT_BYTES = 512 * 1024;
/** The longer side of a scaled-down image: the size that models use. */
const LONGER_SIDE = 1568;

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
