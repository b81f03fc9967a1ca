/** Vietnamese. */
import { endingOf, endText, kindsOf, type Ending } from "./ended.js";
import type { Labels, Texts } from "./labels.js";
import { visibleText } from "./visibleText.js";

/** The texts for showing and editing arguments. */
export const texts: Texts = {
  "text.comma": ", ",
  "text.list": ", ",
  "text.colon": ": ",
  "text.paren": " ({text})",

  "withdrawn.taken_back": "công cụ đã rút lại câu hỏi",
  "withdrawn.state_edited": "trạng thái liên quan đã được sửa",
  "withdrawn.call_ended": "lệnh gọi đã kết thúc theo cách khác",
  "withdrawn.node_ended": "nút của sơ đồ đã kết thúc theo cách khác",

  "people.owner": "chủ phiên",

  "refusal.reason": "Máy chủ cho biết: ",

  "card.hidden": "Có ký tự ẩn, được hiện dưới dạng ⟨U+…⟩.",
  "card.lookalike": "Có ký tự trông giống ký tự khác, được hiện dưới dạng ⟨U+…⟩.",

  "preview.diff": "Những gì sẽ thay đổi",
  "preview.text": "Những gì sẽ được thực hiện",
  "preview.failed": "Không thể xem trước",
  "preview.leftOut": "Còn {n} dòng không được hiện.",

  "shown.agentSays": "Lời của agent, chưa được kiểm chứng",
  "shown.size": "{n} byte",
  "shown.hashArgs": "SHA-256 của các tham số",
  "shown.hashText": "SHA-256 của văn bản được hiện",
  "shown.long": "Nội dung dài: hãy cuộn đến cuối, hoặc hiện tất cả, rồi mới phê duyệt.",
  "shown.all": "Hiện tất cả",
  "shown.region": "Tham số, đúng như khi chạy",
  "shown.warning": "Hãy xem kỹ. Những ký tự có thể gây nhầm lẫn được viết dưới dạng ⟨U+…⟩ hoặc \\u{…}: ",
  "shown.places": "Vị trí",
  "shown.elsewhere": "ở những chỗ khác",
  "shown.invisible": "{n} ký tự vô hình",
  "shown.bidirectional": "{n} chỗ đổi hướng chữ",
  "shown.control": "{n} ký tự điều khiển",
  "shown.confusable": "{n} ký tự trông giống ký tự khác",
  "shown.whitespace": "{n} khoảng trắng bất thường",
  "shown.not_normalized": "{n} ký tự có cách viết bất thường",

  "args.region": "Các tham số, dạng bảng",
  "args.exact": "JSON chính xác",
  "args.notSet": "Không có giá trị: ",
  "args.default": "mặc định: {value}",
  "args.more": "Ở đây lược bớt {n} mục. JSON chính xác bên dưới có đủ.",
  "args.moreChars": "… còn {n} ký tự, có đủ trong JSON chính xác bên dưới.",

  "edit.heading": "Sửa tham số",
  "edit.form": "Biểu mẫu",
  "edit.json": "JSON",
  "edit.jsonLabel": "Tham số dạng JSON",
  "edit.valid": "JSON hợp lệ",
  "edit.changes": "Thay đổi",
  "edit.noChanges": "Chưa có thay đổi nào.",
  "edit.reset": "Đặt lại",
  "edit.notSet": "không có giá trị",
  "edit.removed": "đã xóa",
  "edit.required": "bắt buộc",
  "edit.fixFirst": "Trước hết, hãy sửa các ô được đánh dấu.",
  "edit.asks": "Chưa ai phê duyệt lệnh gọi đã sửa, nên lệnh gọi sẽ được gửi đi phê duyệt.",
  "edit.restarts": "Lệnh gọi đã sửa phải được phê duyệt lại từ bước đầu: {role}.",
  "edit.notSelf": "Bạn không được tự phê duyệt nội dung mình đã sửa; cần người khác có vai trò “{role}” phê duyệt.",
  "edit.checking": "Đang kiểm tra lệnh gọi đã sửa…",
  "edit.accepted": "Chính sách chấp nhận các giá trị này.",
  "edit.needsApproval": "Các giá trị này cần được phê duyệt: {role}",
  "edit.refused": "Các giá trị này sẽ không được chấp nhận.",
  "edit.error.required": "Ô này là bắt buộc.",
  "edit.error.number": "Đây không phải là số.",
  "edit.error.integer": "Đây không phải là số nguyên.",
  "edit.error.json": "JSON không hợp lệ, từ dòng {line}, cột {column}.",
  "edit.error.duplicate": "Tên {n} xuất hiện hai lần.",
  "edit.error.digits": "Số {n} quá lớn, quá nhỏ hoặc có quá nhiều chữ số nên không thể lưu chính xác.",
  "edit.error.refused": "Giá trị này không được chấp nhận.",
  "edit.error.object": "Tham số phải là một đối tượng JSON.",
  "edit.error.min": "Tối thiểu là {n}.",
  "edit.error.max": "Tối đa là {n}.",
  "edit.error.above": "Phải lớn hơn {n}.",
  "edit.error.below": "Phải nhỏ hơn {n}.",
  "edit.error.minLength": "Tối thiểu {n} ký tự.",
  "edit.error.maxLength": "Tối đa {n} ký tự.",
  "edit.error.minItems": "Tối thiểu {n} mục.",
  "edit.error.maxItems": "Tối đa {n} mục.",
  "edit.error.email": "Đây không phải là địa chỉ email.",
  "edit.error.uri": "Đây không phải là địa chỉ đầy đủ, ví dụ https://example.com.",
  "edit.error.date": "Đây không phải là ngày, ví dụ 2026-01-31.",
  "edit.error.dateTime": "Đây không phải là ngày kèm giờ, ví dụ 2026-01-31T09:30:00Z.",
  "edit.to": "đổi thành",
  "edit.noForm": "JSON hợp lệ. Biểu mẫu không có đủ ô cho nội dung này.",
  "edit.entry": "Mục {n}",
  "edit.addEntry": "Thêm mục",
  "edit.removeEntry": "Xóa mục {n}",
  "edit.fillIn": "Điền",
  "edit.leaveOut": "Bỏ trường này",
  "edit.error.multiple": "Phải là bội số của {n}.",

  "interrupt.answer": "Câu trả lời của bạn",
  "interrupt.json": "Câu trả lời của bạn, dạng JSON",
  "interrupt.yes": "Có",
  "interrupt.no": "Không",

  "elicit.says": "Lời của máy chủ “{server}”, chưa được kiểm chứng",
  "elicit.address": "Địa chỉ",
  "elicit.host": "Dẫn tới",
  "elicit.open": "Mở địa chỉ",
  "elicit.newTab": "trong thẻ mới",
  "elicit.noLink": "Đây không phải là địa chỉ trang web nên không thể mở từ đây.",
  "elicit.accept": "Chấp nhận và gửi",
  "elicit.done": "Đã xong",
  "elicit.decline": "Từ chối",
  "elicit.cancel": "Hủy",
  "elicit.hint": "“Từ chối” báo cho máy chủ rằng bạn không đồng ý. “Hủy” báo rằng bạn chưa lựa chọn.",
};

const done: Record<string, string> = {
  approve: "Đã phê duyệt",
  reject: "Đã từ chối",
  edit: "Đã sửa và phê duyệt",
  changed: "Đã sửa và gửi phê duyệt lại",
  edited: "Đã sửa tham số",
  respond: "Đã nhập kết quả",
  defer: "Đã hoãn quyết định",
};
const how: Record<string, string> = { decided: "Đã quyết định", timeout: "Không ai quyết định kịp thời", cancelled: "Đã hủy" };
const errors: Partial<Record<string, string>> = {
  invalid_edit: "Tham số đã sửa không phù hợp với công cụ.",
  stale_action: "Yêu cầu đang chờ không còn là yêu cầu bạn đã xem. Hãy xem lại trước khi quyết định.",
  forbidden: "Bạn không được phép làm việc này.",
  // The client's own errors, without the server.
  offline: "Mất kết nối trước khi máy chủ trả lời.",
  closed: "Kết nối đã đóng.",
  unreachable: "Không kết nối được tới máy chủ.",
  unauthenticated: "Hãy đăng nhập.",
  bad_json: "Có ký tự không gửi được, chẳng hạn một nửa biểu tượng cảm xúc.",
  too_large: "Nội dung quá lớn đối với máy chủ.",
};

const resolved = (ending: Ending = {}): string => {
  const { resolution = "decided", reason, by, answers, resume } = ending;
  const words = answers || resume !== undefined ? ["Đã trả lời"] : kindsOf(ending).map((kind) => done[kind] ?? visibleText(kind));
  const what = resolution === "decided" && words.length > 0 ? words.join(", ") : (endText(how, texts, resolution, reason) ?? `Đã kết thúc (${visibleText(resolution)})`);
  return by ? `${what} bởi ${by}` : what;
};

/** All but the words of refusals, for pages that have their own. */
export const words: Omit<Labels, "error"> = {
  language: "vi",
  texts,
  choices: { approve: "Phê duyệt", reject: "Từ chối", edit: "Sửa", respond: "Không chạy, tự nhập kết quả", defer: "Quyết định sau" },
  again: "Thử lại",
  reason: "Lý do (agent sẽ đọc)",
  result: "Kết quả đưa cho agent",
  comment: "Nhận xét cho agent",
  questions: {
    place: (n, of) => `Câu hỏi ${n}/${of}`,
    several: "Chọn một hoặc nhiều.",
    skipped: "Đã bỏ qua. Chọn một mục nếu bạn vẫn muốn trả lời.",
    noPreference: "Không có ý kiến",
    own: "Câu trả lời của bạn",
    ownFor: (option) => `Câu trả lời của bạn cho “${option}”`,
    choose: "Hãy chọn câu trả lời hoặc bỏ qua câu hỏi này.",
    write: "Hãy nhập câu trả lời hoặc chọn mục khác.",
    next: "Tiếp tục",
    review: "Xem lại các câu trả lời",
    send: "Gửi câu trả lời",
    sendAll: "Gửi các câu trả lời",
    back: "Quay lại",
    skip: "Bỏ qua",
    decline: "Không trả lời",
    reason: "Lý do (agent sẽ đọc)",
    reasonPlaceholder: "Ví dụ: bạn tự quyết định nhé",
    reviewHeading: "Các câu trả lời của bạn",
    change: "Sửa",
    changeOne: (question) => `Sửa câu trả lời cho: ${question}`,
  },
  send: "Gửi",
  sending: "Đang gửi…",
  sent: "Đã gửi.",
  voted: "Bạn đã phê duyệt.",
  until: "Đến",
  choose: "Hãy quyết định từng lệnh gọi.",
  unreadable: "Không hiển thị được các câu hỏi này.",
  waitingFor: (role) => (role === undefined ? "Đang chờ chủ phiên" : `Đang chờ ${role}`),
  progress: (approved, quorum) => `${approved}/${quorum} đã phê duyệt`,
  inDoubt: "Lệnh gọi này có thể đã chạy, và có thể vẫn đang chạy: không rõ kết quả. Phê duyệt là chạy lại; từ chối là không chạy lại.",
  unknownKind: (kind) => `Trang này không biết loại yêu cầu “${kind}” nên không trả lời được. Phiên bản mới hơn của trang thì có thể.`,
  late: "Phản hồi của bạn đến quá muộn nên không được tính.",
  dismiss: "Đã hiểu",
  resolved,
};

export const vietnamese: Labels = {
  ...words,
  error: (error) => {
    const { code, textCode, message } = error;
    if (code === "approval_already_resolved") return `Yêu cầu này đã được xử lý: ${visibleText(resolved(endingOf(error)))}.`;
    if (code.startsWith("http_")) return `Không thực hiện được: câu trả lời nhận được không phải của máy chủ (HTTP ${code.slice(5)}).`;
    // The server's own messages are English.
    return errors[textCode] ?? `Không thực hiện được. Máy chủ cho biết: ${message || code}`;
  },
};
