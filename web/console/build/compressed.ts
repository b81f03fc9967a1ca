/**
 * The built files, compressed once, as the server sends them: `NAME.br` and `NAME.gz` in place of NAME. A client that takes
 * neither gets what the server unpacks. The build fails when the first page has become too large.
 */
import { constants, brotliCompressSync, gzipSync } from "node:zlib";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin, Rolldown } from "vite";

/** The most bytes of the first page with all that it needs, compressed by gzip, which every browser takes. */
export const FIRST_PAGE_BYTES = 120_000;

/** What is loaded only later, or in place of a file that is counted. */
const LANGUAGES = /[\\/]i18n[\\/](en|vi|zh)\.ts$/;
const COMPRESSED = /\.(html|js|css|svg)$/;

export const gzip = (bytes: Uint8Array | string) => gzipSync(bytes, { level: 9 });
const brotli = (bytes: Uint8Array) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY } });

/** The files of the first page, each with its compressed size: the page, its styles, its modules, the largest language. */
export function firstPage(bundle: Rolldown.OutputBundle): Map<string, number> {
  const all = Object.values(bundle);
  const chunks = new Map(all.flatMap((file) => (file.type === "chunk" ? [[file.fileName, file] as const] : [])));
  const sizes = new Map<string, number>();
  const take = (name: string) => {
    const chunk = chunks.get(name);
    if (!chunk || sizes.has(name)) return;
    sizes.set(name, gzip(chunk.code).length);
    chunk.imports.forEach(take);
  };
  for (const chunk of chunks.values()) if (chunk.isEntry) take(chunk.fileName);
  const styles = new Set([...sizes.keys()].flatMap((name) => [...(chunks.get(name)?.viteMetadata?.importedCss ?? [])]));
  for (const file of all) {
    if (file.type !== "asset") continue;
    if (file.fileName.endsWith(".html") || styles.has(file.fileName)) sizes.set(file.fileName, gzip(file.source).length);
  }
  const languages = [...chunks.values()].filter((chunk) => LANGUAGES.test(chunk.facadeModuleId ?? ""));
  const largest = languages.map((chunk) => [chunk.fileName, gzip(chunk.code).length] as const).sort((a, b) => b[1] - a[1])[0];
  if (!largest) throw new Error("No language has a file of its own, so that every page loads them all.");
  return sizes.set(...largest);
}

/** What is wrong with the size of the first page, if anything is. */
export function tooLarge(files: ReadonlyMap<string, number>): string | undefined {
  const sum = [...files.values()].reduce((a, b) => a + b, 0);
  if (sum <= FIRST_PAGE_BYTES) return undefined;
  const each = [...files].map(([name, bytes]) => `${name} ${bytes}`).join(", ");
  return `The first page has ${sum} bytes compressed; ${FIRST_PAGE_BYTES} are the most. Load later what it does not need: ${each}`;
}

/** Replace the files of a folder that compress well. */
export function compress(folder: string): void {
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !COMPRESSED.test(entry.name)) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = readFileSync(path);
    writeFileSync(`${path}.br`, brotli(bytes));
    writeFileSync(`${path}.gz`, gzip(bytes));
    rmSync(path);
  }
}

export function compressed(): Plugin {
  let folder = "";
  return {
    name: "compressed",
    apply: "build",
    enforce: "post",
    configResolved: ({ root, build }) => void (folder = join(root, build.outDir)),
    generateBundle: {
      order: "post",
      handler(_, bundle) {
        const files = firstPage(bundle);
        const wrong = tooLarge(files);
        if (wrong !== undefined) this.error(wrong);
        this.info(`the first page has ${[...files.values()].reduce((a, b) => a + b, 0)} bytes compressed`);
      },
    },
    closeBundle: () => compress(folder),
  };
}
