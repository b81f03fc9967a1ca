/** A page of its own origin, as somebody else's front end would be. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build, defaultClientConditions, preview, type Plugin } from "vite";

export interface ServedPage {
  origin: string;
  stop(): Promise<void>;
}

/** Build the page of a folder of the tests, with the packages' own sources, and serve it. */
export async function servePage(folder: string, plugins: Plugin[] = []): Promise<ServedPage> {
  const outDir = await mkdtemp(join(tmpdir(), `countersign-${folder}-`));
  const root = join(import.meta.dirname, "..", folder);
  const conditions = ["@countersign/source", ...defaultClientConditions];
  const common = { configFile: false, logLevel: "error", root, resolve: { conditions } } as const;
  await build({ ...common, plugins, build: { outDir, emptyOutDir: true } });
  const { origin, stop } = await serveFolder(outDir);
  return {
    origin,
    stop: async () => {
      await stop();
      await rm(outDir, { recursive: true, force: true });
    },
  };
}

/** Serve a page that is built already. */
export async function serveFolder(outDir: string): Promise<ServedPage> {
  const server = await preview({ configFile: false, logLevel: "error", build: { outDir }, preview: { host: "127.0.0.1", port: 0 } });
  const address = server.httpServer.address();
  if (address === null || typeof address === "string") throw new Error("the page has no port");
  return {
    origin: `http://127.0.0.1:${address.port}`,
    stop: () => server.close(),
  };
}
