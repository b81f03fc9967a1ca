/** Which images of messages may be shown, and how. */
import { IMAGE_TYPES, type ImageSource, type ImageType } from "@countersign/client";

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
