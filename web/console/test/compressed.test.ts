import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import type { Rolldown } from "vite";
import { compress, FIRST_PAGE_BYTES, firstPage, gzip, tooLarge } from "../build/compressed.js";

const chunk = (fileName: string, code: string, more: object = {}) => ({ type: "chunk", fileName, code, imports: [], isEntry: false, ...more });
const bundle = (...files: { fileName: string }[]) =>
  Object.fromEntries(files.map((file) => [file.fileName, file])) as unknown as Rolldown.OutputBundle;
const language = (name: string, code: string) => chunk(`${name}.js`, code, { facadeModuleId: `/console/src/i18n/${name}.ts` });
/** Text that compresses hardly. */
const noise = (length: number) => Array.from({ length }, (_, i) => String.fromCharCode(33 + ((i * i * 7919 + i * 31) % 89))).join("");

test("u1 the first page is counted with all that it needs and one language, and nothing that comes later", () => {
  const files = firstPage(
    bundle(
      { type: "asset", fileName: "index.html", source: "<p>" } as { fileName: string },
      { type: "asset", fileName: "index.css", source: "a{}" } as { fileName: string },
      { type: "asset", fileName: "later.css", source: "b{}" } as { fileName: string },
      chunk("index.js", "entry", { isEntry: true, viteMetadata: { importedCss: new Set(["index.css"]) }, imports: ["shared.js"], dynamicImports: ["page.js", "en.js", "vi.js"] }),
      chunk("shared.js", "shared", { imports: ["index.js"] }),
      chunk("page.js", noise(1_000), { viteMetadata: { importedCss: new Set(["later.css"]) } }),
      language("en", "hi"),
      language("vi", noise(500)),
    ),
  );
  expect([...files.keys()].sort()).toEqual(["index.css", "index.html", "index.js", "shared.js", "vi.js"]);
  expect(files.get("index.js")).toBe(gzip("entry").length);
  expect(() => firstPage(bundle(chunk("index.js", "all", { isEntry: true })))).toThrow("No language");
});

test("u1 the build fails above 120 kB, and says what is large", () => {
  const [small, large] = [new Map([["a.js", FIRST_PAGE_BYTES]]), new Map([["a.js", FIRST_PAGE_BYTES], ["b.css", 1]])];
  expect(FIRST_PAGE_BYTES).toBe(120_000);
  expect(tooLarge(small)).toBeUndefined();
  expect(tooLarge(large)).toContain("120001 bytes compressed");
  expect(tooLarge(large)).toContain("b.css 1");
});

test("u1 what is compressed is what was built, and other files stay", () => {
  const folder = mkdtempSync(join(tmpdir(), "countersign-compressed-"));
  writeFileSync(join(folder, "index.js"), "let đồng = 1;");
  writeFileSync(join(folder, "photo.png"), "png");
  compress(folder);
  expect(readdirSync(folder).sort()).toEqual(["index.js.br", "index.js.gz", "photo.png"]);
  expect(gunzipSync(readFileSync(join(folder, "index.js.gz"))).toString()).toBe("let đồng = 1;");
  expect(brotliDecompressSync(readFileSync(join(folder, "index.js.br"))).toString()).toBe("let đồng = 1;");
});
