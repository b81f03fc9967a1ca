/** A page of its own origin, as somebody else's front end would be. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build, preview } from "vite";
import { snippets } from "../snippets/sources.js";

export interface ServedPage {
  origin: string;
  stop(): Promise<void>;
}

/** Build the page of the documents' snippets, and serve it. */
export async function serveSnippets(): Promise<ServedPage> {
  const outDir = await mkdtemp(join(tmpdir(), "countersign-snippets-"));
  const root = join(import.meta.dirname, "../snippets");
  const common = { configFile: false, logLevel: "warn", root } as const;
  await build({ ...common, plugins: [snippets()], build: { outDir, emptyOutDir: true } });
  const server = await preview({ ...common, build: { outDir }, preview: { host: "127.0.0.1", port: 0 } });
  const address = server.httpServer.address();
  if (address === null || typeof address === "string") throw new Error("the page has no port");
  return {
    origin: `http://127.0.0.1:${address.port}`,
    stop: async () => {
      await server.close();
      await rm(outDir, { recursive: true, force: true });
    },
  };
}
