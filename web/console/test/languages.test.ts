// @vitest-environment jsdom
/**
 * What the server writes in Mermaid and DOT, read by Mermaid and Graphviz themselves. The files are those of
 * `crates/core/tests/it/drawing.rs`.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { instance } from "@viz-js/viz";
import mermaid from "mermaid";
import { expect, test } from "vitest";

interface Drawing {
  nodes: { id: string; label: string; kind: string; parent?: string }[];
  edges: { from: string; to: string; label: string; conditional: boolean }[];
  current: { node: string; running: number; waiting: number }[];
}

const folder = join(import.meta.dirname, "../../../crates/core/tests/it/drawings");
const read = (name: string) => readFileSync(join(folder, name), "utf8");
const names = ["loop", "loop-idle", "nested", "hostile", "empty"];

/** The text of each node, in order; a node that only an edge or a position names counts too. */
function shown({ nodes, edges, current }: Drawing) {
  const labels = new Map<string, string>();
  for (const { id, label } of nodes) if (!labels.has(id)) labels.set(id, label.trim() === "" ? id : label);
  for (const id of [...edges.flatMap((e) => [e.from, e.to]), ...current.map((at) => at.node)]) {
    if (!labels.has(id)) labels.set(id, id);
  }
  return [...labels].map(([id, label]) => {
    const at = current.find((p) => p.node === id);
    const tasks = at ? ([["running", at.running], ["waiting", at.waiting]] as const).filter(([, n]) => n > 0) : [];
    const several = tasks.reduce((sum, [, n]) => sum + n, 0) > 1;
    return lines(label) + (several ? `\n${tasks.map(([what, n]) => `${n} ${what}`).join(", ")}` : "");
  });
}
const lines = (label: string) =>
  label.replace(/\r\n|[\r\u0085\u2028\u2029]/g, "\n").replace(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
const frames = ({ nodes }: Drawing) => new Set(nodes.map((n) => n.parent).filter((p) => p !== undefined));

/** A label as the browser shows it: Mermaid keeps character codes in a form of its own until it draws. */
function drawn(label: string): string {
  const html = label.replace(/ﬂ°°(\d+)¶ß/g, "&#$1;").replace(/ﬂ°(\w+)¶ß/g, "&$1;");
  expect(html.replaceAll("<br>", "")).not.toMatch(/[<>"]/);
  const box = document.createElement("textarea");
  box.innerHTML = html.replaceAll("<br>", "\n");
  return box.value;
}

/** The parts of Mermaid's result that we check. */
interface Flow {
  getVertices(): Map<string, { id: string; text: string; classes: string[] }>;
  getSubGraphs(): { id: string; title: string; nodes: string[]; classes: string[] }[];
  getEdges(): { start: string; end: string; text: string; stroke: string }[];
}

test.each(names)("g7 Mermaid reads %s as it is meant", { timeout: 60_000 }, async (name) => {
  const drawing = JSON.parse(read(`${name}.json`)) as Drawing;
  mermaid.initialize({ startOnLoad: false });
  const { db } = await mermaid.mermaidAPI.getDiagramFromText(read(`${name}.mmd`));
  const { getVertices, getSubGraphs, getEdges } = db as unknown as Flow;
  const graphs = getSubGraphs.call(db);
  // A frame at the end of an edge is a node too, until it is drawn.
  const nodes = [...getVertices.call(db).values()].filter((v) => !graphs.some((g) => g.id === v.id));
  const all = nodes.map((v) => v.text).concat(graphs.map((g) => g.title));
  // Blank texts look the same.
  const trim = (text: string) => text.trim();
  expect(all.map(drawn).map(trim).sort()).toEqual(shown(drawing).map(trim).sort());
  expect(graphs).toHaveLength(frames(drawing).size);
  const edges = getEdges.call(db);
  expect(edges.map((e) => [trim(drawn(e.text)), e.stroke])).toEqual(
    drawing.edges.map((e) => [trim(lines(e.label)), e.conditional ? "dotted" : "normal"]),
  );
  const marked = [...nodes, ...graphs].filter((v) => v.classes.includes("current"));
  expect(marked).toHaveLength(new Set(drawing.current.map((p) => p.node)).size);
});

test.each(names)("g7 Graphviz reads and draws %s as it is meant", { timeout: 60_000 }, async (name) => {
  const drawing = JSON.parse(read(`${name}.json`)) as Drawing;
  const viz = await instance();
  const { status, errors, output } = viz.render(read(`${name}.dot`), { format: "json0" });
  // It does not know how wide some characters are; they are drawn all the same.
  expect([status, errors.filter((e) => !e.message.includes("no value for width"))]).toEqual(["success", []]);
  const found = JSON.parse(output ?? "") as {
    objects?: { name: string; label?: string; class?: string }[];
    edges?: { label?: string; style?: string }[];
  };
  const objects = found.objects ?? [];
  // Graphviz keeps its escapes in what it has read.
  const plain = (label = "") =>
    label.replace(/\\(.)/g, (_, c: string) => (c === "n" ? "\n" : c)).replaceAll("&amp;", "&").trim();
  expect(objects.map((o) => plain(o.label)).sort()).toEqual(shown(drawing).map((s) => s.trim()).sort());
  expect(objects.filter((o) => o.name.startsWith("cluster_"))).toHaveLength(frames(drawing).size);
  expect((found.edges ?? []).map((e) => [plain(e.label), e.style ?? ""]).sort()).toEqual(
    drawing.edges.map((e) => [lines(e.label).trim(), e.conditional ? "dashed" : ""]).sort(),
  );
  expect(objects.filter((o) => o.class?.startsWith("current"))).toHaveLength(
    new Set(drawing.current.map((p) => p.node)).size,
  );
});
