import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Drawing } from "@countersign/client";
import { describe, expect, it } from "vitest";
import { inWords } from "../src/lib/graphWords.js";
import { layout, pathOf, widthOf, wrap } from "../src/lib/graph.js";

const folder = join(import.meta.dirname, "../../../crates/core/tests/it/drawings");
const read = (name: string) => JSON.parse(readFileSync(join(folder, `${name}.json`), "utf8")) as Drawing;

describe("layout", () => {
  it.each(["loop", "loop-idle", "nested", "hostile", "empty"])("places everything of %s on the paper", (name) => {
    const drawing = read(name);
    const paper = layout(drawing);
    expect(paper.lines).toHaveLength(drawing.edges.length);
    for (const node of drawing.nodes) expect([...paper.boxes, ...paper.frames].filter((b) => b.id === node.id)).toHaveLength(1);
    for (const { x, y, width, height } of [...paper.boxes, ...paper.frames]) {
      expect(Math.min(x - width / 2, y - height / 2)).toBeGreaterThanOrEqual(0);
      expect(x + width / 2).toBeLessThanOrEqual(paper.width);
      expect(y + height / 2).toBeLessThanOrEqual(paper.height);
    }
    for (const { points } of paper.lines) expect(pathOf(points)).toMatch(/^M[\d.,\-QL ]+$/);
  });

  it("draws boxes apart from each other, and inside of their frame", () => {
    const { boxes, frames } = layout(read("nested"));
    for (const a of boxes) {
      for (const b of boxes) {
        if (a === b) continue;
        const apart = Math.abs(a.x - b.x) >= (a.width + b.width) / 2 || Math.abs(a.y - b.y) >= (a.height + b.height) / 2;
        expect(apart, `${a.id} ${b.id}`).toBe(true);
      }
    }
    expect(frames.map((f) => f.id)).toEqual(["work", "work/account"]);
    const [outer, inner] = frames as [(typeof frames)[0], (typeof frames)[0]];
    expect(inner.width).toBeLessThan(outer.width);
    expect(inner.height).toBeLessThan(outer.height);
  });

  it("draws what cannot be: circles of parents, edges from nowhere", () => {
    const node = (id: string, parent: string) => ({ id, label: "", kind: "graph" as const, parent });
    const drawing: Drawing = {
      nodes: [node("a", "b"), node("b", "a"), node("c", "c"), node("d", "gone")],
      edges: [{ from: "x", to: "a", label: "", conditional: false }],
      current: [{ node: "moved", running: 0, waiting: 1 }],
    };
    const { boxes, frames } = layout(drawing);
    expect([...boxes, ...frames].map((b) => b.id).sort()).toEqual(["a", "b", "c", "d", "moved", "x"]);
  });

  it("places a thousand nodes", { timeout: 60_000 }, () => {
    const nodes = Array.from({ length: 1000 }, (_, i) => ({ id: `${i}`, label: `Node ${i}`, kind: "node" as const }));
    const edges = nodes.slice(1).map((n, i) => ({ from: `${i >> 1}`, to: n.id, label: "", conditional: true }));
    expect(layout({ nodes, edges, current: [] }).boxes).toHaveLength(1000);
  });
});

describe("wrapping", () => {
  it("breaks at spaces, in long words and anywhere in Chinese, and keeps all of it", () => {
    for (const text of ["one two three four five", "x".repeat(60), "需要经理审批的高风险交易操作请注意", "Kiểm tra số dư tài khoản"]) {
      const lines = wrap(text, 90, 20);
      expect(lines.length).toBeGreaterThan(1);
      for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(90);
      expect(lines.join("").replaceAll(" ", "")).toBe(text.replaceAll(" ", ""));
    }
  });
  it("g7: every label of the agents' own graphs has words in each language, and none is broken inside a word", () => {
    const rust = readFileSync(join(folder, "../../../../runtime/src/graph/agent_loop.rs"), "utf8");
    const ways = [...rust.matchAll(/^ +After\w+::\w+ => "([^"]+)",$/gm)].map(([, label]) => label!);
    const labels = [...read("loop").edges.map((e) => e.label), ...ways, "for each"].filter((label) => label !== "");
    expect(ways.length).toBeGreaterThan(8);
    const edges = labels.map((label) => ({ from: "a", to: "b", label, conditional: true }));
    const drawing: Drawing = { nodes: [], edges: [...edges, { from: "a", to: "b", label: "của tôi", conditional: true }], current: [] };
    for (const language of ["en", "vi", "zh"] as const) {
      const said = inWords(drawing, language).edges.map((e) => e.label);
      labels.forEach((label, i) => expect(said[i] === label, `${label} in ${language}`).toBe(language === "en"));
      expect(said.at(-1)).toBe("của tôi");
      for (const { edge, lines } of layout(inWords(drawing, language)).lines) {
        expect(lines.length, edge.label).toBeLessThanOrEqual(4);
        if (language === "zh") expect(lines.join("").replaceAll(" ", "")).toBe(edge.label.replaceAll(" ", ""));
        else expect(lines.join(" ")).toBe(edge.label);
      }
    }
  });
  it("says that there is more", () => {
    expect(wrap("a\nb\nc\nd", 90, 2)).toEqual(["a", "b…"]);
  });
});
