/** A fresh folder with the packages as people get them: packed, and installed there with what they need. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

export const run = promisify(execFile);
export const web = fileURLToPath(new URL("..", import.meta.url));
export const OWN = ["client", "react"] as const;

/** Makes the folder. `others`: what is installed beside our own and from what is installed here, so that no network is needed. */
export async function freshFolder(others: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "countersign-packages-"));
  await writeFile(join(folder, "package.json"), '{ "name": "fresh", "private": true, "type": "module" }');
  const packed: string[] = [];
  // One after another: the second is built with the types of the first.
  for (const name of OWN) packed.push(...(await pack(folder, join(web, "packages", name))));
  packed.push(...(await pack(folder, web, "--ignore-scripts", ...(await needed(others)))));
  await run("npm", ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", ...packed], { cwd: folder });
  return folder;
}

/** Packs packages into the folder, and gives the names of the files. */
async function pack(folder: string, cwd: string, ...more: string[]): Promise<string[]> {
  const { stdout } = await run("npm", ["pack", "--silent", "--pack-destination", folder, ...more], { cwd });
  return stdout.trim().split("\n").slice(more.length > 0 ? -more.length + 1 : -1).map((file) => `./${file}`);
}

/** The folders of these packages and of all that they need. */
async function needed(names: readonly string[]): Promise<string[]> {
  const found = new Set<string>();
  const add = async (name: string, from: string, optional: boolean) => {
    const place = placeOf(name, from);
    if (place === undefined && !optional) throw new Error(`${name} is not installed`);
    if (place === undefined || found.has(place)) return;
    found.add(place);
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(await readFile(join(place, "package.json"), "utf8")) as Record<string, Record<string, string>>;
    for (const one of Object.keys(dependencies)) await add(one, place, one in optionalDependencies);
    // Of those for other systems, none is here.
    for (const one of Object.keys(optionalDependencies)) await add(one, place, true);
  };
  for (const name of names) await add(name, web, false);
  return [...found];
}

/** Where a package is that another one means, as Node looks for it. */
function placeOf(name: string, from: string): string | undefined {
  for (let at = from; at.startsWith(web.replace(/\/$/, "")); at = dirname(at)) {
    const place = join(at, "node_modules", name);
    if (existsSync(place)) return place;
  }
  return undefined;
}

/** The examples of a package's README, in order. */
export async function examples(name: (typeof OWN)[number], language: "ts" | "tsx"): Promise<string[]> {
  const readme = await readFile(join(web, "packages", name, "README.md"), "utf8");
  return readme.split("```" + language + "\n").slice(1).map((after) => after.split("\n```")[0] ?? "");
}
