/** Simplified Chinese. */
import { endingOf, endText, kindsOf, type Ending } from "./ended.js";
import type { Labels, Texts } from "./labels.js";
import { visibleText } from "./visibleText.js";

/** The texts for showing and editing arguments. */
export const texts: Texts = {
  "text.comma": "，",
  "text.list": "、",
  "text.colon": "：",
  "text.paren": "（{text}）",

  "withdrawn.taken_back": "工具已撤回提问",
  "withdrawn.state_edited": "相关状态已被修改",
  "withdrawn.call_ended": "该调用已以其他方式结束",
  "withdrawn.node_ended": "该节点已以其他方式结束",

  "people.owner": "会话所有者",

  "refusal.reason": "服务器说明：",

  "card.hidden": "包含隐藏字符，显示为 ⟨U+…⟩。",
  "card.lookalike": "包含易与其他字符混淆的字符，显示为 ⟨U+…⟩。",

  "preview.diff": "将要作出的更改",
  "preview.text": "将要执行的操作",
  "preview.failed": "无法预览",
  "preview.leftOut": "还有 {n} 行未显示。",

  "shown.agentSays": "智能体的说法，未经核实",
  "shown.size": "{n} 字节",
  "shown.hashArgs": "参数的 SHA-256",
  "shown.hashText": "所示文本的 SHA-256",
  "shown.long": "内容较长：请先滚动到末尾或显示全部，然后才能批准。",
  "shown.all": "显示全部",
  "shown.region": "参数（与将要执行的完全一致）",
  "shown.warning": "请仔细查看。可能造成误解的字符写作 ⟨U+…⟩ 或 \\u{…}：",
  "shown.places": "位置",
  "shown.elsewhere": "其他位置",
  "shown.invisible": "{n} 个不可见字符",
  "shown.bidirectional": "{n} 个改变文字方向的字符",
  "shown.control": "{n} 个控制字符",
  "shown.confusable": "{n} 个形似字符",
  "shown.whitespace": "{n} 个异常空格",
  "shown.not_normalized": "{n} 处非常规写法",

  "args.region": "参数表",
  "args.exact": "原始 JSON",
  "args.notSet": "未设置：",
  "args.default": "默认值：{value}",
  "args.more": "此处省略 {n} 项，下方的原始 JSON 中全部列出。",
  "args.moreChars": "……还有 {n} 个字符，见下方的原始 JSON。",

  "edit.heading": "修改参数",
  "edit.form": "表单",
  "edit.json": "JSON",
  "edit.jsonLabel": "JSON 格式的参数",
  "edit.valid": "JSON 有效",
  "edit.changes": "改动",
  "edit.noChanges": "尚无改动。",
  "edit.reset": "还原",
  "edit.notSet": "未设置",
  "edit.removed": "已删除",
  "edit.required": "必填",
  "edit.fixFirst": "请先更正标出的字段。",
  "edit.asks": "修改后的调用尚未获得批准，将提交审批。",
  "edit.restarts": "修改后的调用将从第一级起重新审批：{role}。",
  "edit.notSelf": "您不能批准自己修改的内容，须由另一位拥有角色“{role}”的人批准。",
  "edit.checking": "正在检查修改后的调用…",
  "edit.accepted": "策略接受这些值。",
  "edit.needsApproval": "这些值需要审批：{role}",
  "edit.refused": "这些值会被拒绝。",
  "edit.error.required": "此字段必填。",
  "edit.error.number": "这不是数字。",
  "edit.error.integer": "这不是整数。",
  "edit.error.json": "JSON 无效，位于第 {line} 行第 {column} 列。",
  "edit.error.duplicate": "名称 {n} 出现了两次。",
  "edit.error.digits": "数字 {n} 过大、过小或位数过多，无法精确保存。",
  "edit.error.refused": "该值不被接受。",
  "edit.error.object": "参数必须是 JSON 对象。",
  "edit.error.min": "不能小于 {n}。",
  "edit.error.max": "不能大于 {n}。",
  "edit.error.above": "必须大于 {n}。",
  "edit.error.below": "必须小于 {n}。",
  "edit.error.minLength": "至少 {n} 个字符。",
  "edit.error.maxLength": "最多 {n} 个字符。",
  "edit.error.minItems": "至少 {n} 项。",
  "edit.error.maxItems": "最多 {n} 项。",
  "edit.error.email": "这不是电子邮件地址。",
  "edit.error.uri": "这不是完整的网址，例如 https://example.com。",
  "edit.error.date": "这不是日期，例如 2026-01-31。",
  "edit.error.dateTime": "这不是带时间的日期，例如 2026-01-31T09:30:00Z。",
  "edit.to": "改为",
  "edit.noForm": "JSON 有效，但表单中没有与之完全对应的字段。",
  "edit.entry": "第 {n} 项",
  "edit.addEntry": "添加一项",
  "edit.removeEntry": "删除第 {n} 项",
  "edit.fillIn": "填写",
  "edit.leaveOut": "不设置",
  "edit.error.multiple": "必须是 {n} 的倍数。",

  "interrupt.answer": "您的回答",
  "interrupt.json": "您的回答（JSON）",
  "interrupt.yes": "是",
  "interrupt.no": "否",

  "elicit.says": "服务器“{server}”的说法，未经核实",
  "elicit.address": "网址",
  "elicit.host": "将前往",
  "elicit.open": "打开网址",
  "elicit.newTab": "在新标签页中",
  "elicit.noLink": "这不是网页地址，无法从这里打开。",
  "elicit.accept": "接受并发送",
  "elicit.done": "已完成",
  "elicit.decline": "拒绝",
  "elicit.cancel": "取消",
  "elicit.hint": "选择“拒绝”，即告知服务器您不同意；选择“取消”，即告知服务器您未作选择。",
};

const done: Record<string, string> = { approve: "已批准", reject: "已拒绝", edit: "已修改并批准", changed: "已修改，重新提交审批", edited: "已修改参数", respond: "结果由人工填写", defer: "留待稍后决定" };
const how: Record<string, string> = { decided: "已决定", timeout: "无人及时决定", cancelled: "已取消" };
const errors: Partial<Record<string, string>> = {
  invalid_edit: "修改后的参数不符合该工具的要求。",
  stale_action: "当前等待的请求已不是您查看过的请求。请重新查看后再决定。",
  forbidden: "您无权执行此操作。",
  // The client's own errors, without the server.
  offline: "服务器答复之前连接已断开。",
  closed: "连接已关闭。",
  unreachable: "无法连接到服务器。",
  unauthenticated: "请登录。",
  bad_json: "其中有无法发送的字符，例如半个表情符号。",
  too_large: "内容过大，服务器无法接受。",
};

const resolved = (ending: Ending = {}): string => {
  const { resolution = "decided", reason, by, answers, resume } = ending;
  const words = answers || resume !== undefined ? ["已回答"] : kindsOf(ending).map((kind) => done[kind] ?? visibleText(kind));
  const what = resolution === "decided" && words.length > 0 ? words.join("、") : (endText(how, texts, resolution, reason) ?? `已结束（${visibleText(resolution)}）`);
  return by ? `${what}（${by}）` : what;
};

/** All but the words of refusals, for pages that have their own. */
export const words: Omit<Labels, "error"> = {
  language: "zh",
  texts,
  choices: { approve: "批准", reject: "拒绝", edit: "修改", respond: "不执行，填写结果", defer: "稍后决定" },
  again: "重试",
  reason: "理由（智能体会看到）",
  result: "交给智能体的结果",
  comment: "给智能体的备注",
  questions: {
    place: (n, of) => `第 ${n} 题，共 ${of} 题`,
    several: "可选择一项或多项。",
    skipped: "已跳过。如需回答，请选择一项。",
    noPreference: "无偏好",
    own: "您的回答",
    ownFor: (option) => `“${option}”的具体回答`,
    choose: "请选择一项，或跳过此题。",
    write: "请填写您的回答，或选择其他选项。",
    next: "下一题",
    review: "核对回答",
    send: "提交回答",
    sendAll: "提交回答",
    back: "返回",
    skip: "跳过",
    decline: "不回答",
    reason: "理由（智能体会看到）",
    reasonPlaceholder: "例如：你自己决定吧",
    reviewHeading: "您的回答",
    change: "修改",
    changeOne: (question) => `修改回答：${question}`,
  },
  send: "提交",
  sending: "正在发送…",
  sent: "已提交。",
  voted: "您已批准。",
  until: "截止时间",
  choose: "请对每个调用作出决定。",
  unreadable: "无法显示这些问题。",
  waitingFor: (role) => (role === undefined ? "等待会话所有者处理" : `等待 ${role} 处理`),
  progress: (approved, quorum) => `${approved}/${quorum} 人已批准`,
  inDoubt: "此调用的结果未知：可能已经执行，也可能仍在执行。批准即会再次执行；拒绝则不再执行。",
  unknownKind: (kind) => `此页面无法识别“${kind}”类请求，因此无法处理。请使用更新版本的页面。`,
  late: "您提交得太晚，未被采用。",
  dismiss: "知道了",
  resolved,
};

export const chinese: Labels = {
  ...words,
  error: (error) => {
    const { code, textCode, message } = error;
    if (code === "approval_already_resolved") return `此请求已处理：${visibleText(resolved(endingOf(error)))}。`;
    if (code.startsWith("http_")) return `操作未成功：收到的答复并非来自服务器（HTTP ${code.slice(5)}）。`;
    // The server's own messages are English.
    return errors[textCode] ?? `操作未成功。服务器说明：${message || code}`;
  },
};
