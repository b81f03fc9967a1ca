import { describe, expect, it } from "vitest";
import type { ImageSource } from "@countersign/client";
import { contentOf, imageFiles, type InlineImage } from "../src/lib/images.js";
import { readImage, typeOf } from "../src/lib/readImage.js";
import { shownImage } from "../src/lib/shownImage.js";

const dot: InlineImage = { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" };

describe("an image of a message", () => {
  it("is shown where its bytes are in the message", () => {
    expect(shownImage(dot)).toEqual({ kind: "here", src: "data:image/png;base64,iVBORw0KGgo=" });
  });

  it("is a link where it is at an address, and only to the web", () => {
    const at = (url: string) => shownImage({ type: "url", url });
    expect(at("https://example.com:8443/a.png?b")).toEqual({
      kind: "elsewhere",
      host: "example.com:8443",
      url: "https://example.com:8443/a.png?b",
    });
    for (const url of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "not a url", ""]) {
      expect(at(url)).toEqual({ kind: "unknown" });
    }
  });

  it("is never made of what this page does not know", () => {
    const odd = [
      { type: "base64", media_type: "image/svg+xml", data: "PHN2Zz4=" },
      { type: "base64", media_type: "image/png", data: "x);background:url(//evil" },
      { type: "file", file_id: "f" },
    ];
    for (const source of odd) expect(shownImage(source as unknown as ImageSource)).toEqual({ kind: "unknown" });
  });
});

describe("what is sent", () => {
  it("is one text without images, and has them before the text", () => {
    expect(contentOf("hi", [])).toBe("hi");
    expect(contentOf("hi", [dot])).toEqual([
      { type: "image", source: dot },
      { type: "text", text: "hi" },
    ]);
    expect(contentOf(" ", [dot])).toEqual([{ type: "image", source: dot }]);
  });

  it("is a small file as it is, whatever its name says", async () => {
    const bytes = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
    expect(await readImage(new Blob([bytes], { type: "image/jpeg" }))).toEqual(dot);
  });

  it("is known by its bytes", () => {
    const of = (text: string) => typeOf(Uint8Array.from(text, (c) => c.charCodeAt(0)));
    expect(["GIF89a", "RIFF1234WEBPVP8 ", "\xff\xd8\xff\xe0", "<svg/>", "RIFF1234WAVE", ""].map(of)).toEqual([
      "image/gif",
      "image/webp",
      "image/jpeg",
      undefined,
      undefined,
      undefined,
    ]);
  });

  it("is taken of what is pasted if it is an image", () => {
    const files = [new File([], "a.png", { type: "image/png" }), new File([], "b.txt", { type: "text/plain" })];
    expect(imageFiles(files).map((f) => f.name)).toEqual(["a.png"]);
    expect(imageFiles(undefined)).toEqual([]);
  });
});
