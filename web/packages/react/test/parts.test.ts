import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const here = import.meta.dirname;
const names = (text: string, pattern: RegExp) => [...new Set([...text.matchAll(pattern)].map((found) => found[1]!))].sort();

it("u2: the README names all that styles may build on: the parts of the cards, and the colours", async () => {
  const readme = (await readFile(join(here, "../README.md"), "utf8")).split("## Names that hold\n")[1]!.split("\n## ")[0]!;
  const [, , parts = "", colours = ""] = readme.split(/^- /m);
  const typed = names(await readFile(join(here, "../src/parts.ts"), "utf8"), /\| "([a-z-]+)"/g);
  expect(names(parts.split("TypeScript):")[1]!, /`([a-z-]+)`/g)).toEqual(typed);
  const styles = await readFile(join(here, "../src/styles.css"), "utf8");
  expect(names(colours, /`(--cs-[a-z-]+)`/g)).toEqual(names(styles, /(--cs-[a-z-]+)/g));
  // Every styled name is a part, and every declared name is used.
  const folder = join(here, "../src");
  const sources = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith(".tsx"));
  const code = (await Promise.all(sources.map((name) => readFile(join(folder, name), "utf8")))).join("\n");
  expect(typed.filter((name) => !code.includes(`"${name}"`))).toEqual([]);
  expect(names(styles, /data-part="([a-z-]+)"/g).filter((name) => !typed.includes(name))).toEqual([]);
  expect(code.match(/data-part=(?!\\?"[a-z-]+"\])/g)).toBeNull();
});
