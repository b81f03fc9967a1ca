/**
 * What the server writes on the edges of every agent's own graph, in the other languages; the labels of an operator's
 * graph stay as they are. Apart from the catalogues: only the picture, which is loaded later, needs them.
 */
import type { Drawing } from "@countersign/client";
import type { Language } from "../i18n/index.js";

const WORDS: Record<string, Record<Exclude<Language, "en">, string>> = {
  "some call needs nobody": { vi: "có lệnh gọi không cần ai duyệt", zh: "有调用无需审批" },
  "every call needs a person": { vi: "mọi lệnh gọi đều cần người duyệt", zh: "所有调用都需人工处理" },
  "no call can run": { vi: "không lệnh gọi nào chạy được", zh: "没有可执行的调用" },
  "the next call would exceed context_tokens": { vi: "lần gọi tới sẽ vượt context_tokens", zh: "下次调用将超出 context_tokens" },
  "no calls": { vi: "không có lệnh gọi", zh: "没有调用" },
  "some are approved": { vi: "có lệnh gọi được phê duyệt", zh: "部分已批准" },
  "all are rejected": { vi: "tất cả bị từ chối", zh: "全部被拒绝" },
  "the next level, or deferred": { vi: "bước duyệt tiếp, hoặc đã hoãn", zh: "下一级，或稍后决定" },
  "gated calls still wait": { vi: "còn lệnh gọi chờ duyệt", zh: "仍有调用等待审批" },
  "all have results": { vi: "tất cả đã có kết quả", zh: "全部已有结果" },
  "for each": { vi: "với mỗi mục", zh: "逐项" },
};

/** The drawing with its edges labelled in this language, as far as they are known here. */
export function inWords(drawing: Drawing, language: Language): Drawing {
  if (language === "en") return drawing;
  const said = (label: string) => (Object.hasOwn(WORDS, label) ? WORDS[label]![language] : label);
  return { ...drawing, edges: drawing.edges.map((edge) => ({ ...edge, label: said(edge.label) })) };
}
