/** Vietnamese. */
import type { Ending } from "./ended.js";
import type { Labels, Texts } from "./labels.js";

/** The texts of what shows and edits arguments. */
export const texts: Texts = {
  "text.comma": ", ",
  "text.colon": ": ",
  "text.paren": " ({text})",

  "people.owner": "người đã yêu cầu",

  "refusal.reason": "Máy chủ cho biết: ",

  "card.hidden": "Có ký tự ẩn, được hiện dưới dạng ⟨U+…⟩.",
  "card.lookalike": "Có ký tự trông giống ký tự khác, được hiện dưới dạng ⟨U+…⟩.",

  "preview.diff": "Những gì sẽ thay đổi",
  "preview.text": "Những gì sẽ được thực hiện",
  "preview.failed": "Không thể xem trước",
  "preview.leftOut": "Còn {n} dòng không được hiện.",

  "shown.agentSays": "Agent nói, chưa được kiểm chứng",
  "shown.size": "{n} byte",
  "shown.hashArgs": "SHA-256 của các tham số",
  "shown.hashText": "SHA-256 của văn bản được hiện",
  "shown.long": "Nội dung dài: hãy cuộn đến cuối, hoặc hiện tất cả, rồi mới phê duyệt.",
  "shown.all": "Hiện tất cả",
  "shown.region": "Tham số, đúng như khi sẽ chạy",
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
  "args.notSet": "Không đặt: ",
  "args.default": "mặc định: {value}",
  "args.more": "Ở đây lược bớt {n} mục. JSON chính xác bên dưới có đủ.",
  "args.moreChars": "… còn {n} ký tự, có đủ trong JSON chính xác bên dưới.",

  "edit.heading": "Sửa tham số",
  "edit.form": "Biểu mẫu",
  "edit.json": "JSON",
  "edit.jsonLabel": "Tham số dạng JSON",
  "edit.valid": "JSON hợp lệ",
  "edit.changes": "Thay đổi",
  "edit.noChanges": "Chưa có gì thay đổi.",
  "edit.reset": "Đặt lại",
  "edit.notSet": "chưa đặt",
  "edit.removed": "đã xóa",
  "edit.required": "bắt buộc",
  "edit.fixFirst": "Hãy sửa các ô được đánh dấu trước.",
  "edit.asks": "Chưa ai phê duyệt lệnh đã sửa, nên lệnh sẽ được gửi đi phê duyệt.",
  "edit.restarts": "Lệnh đã sửa sẽ được hỏi lại từ bước đầu: {role}.",
  "edit.notSelf": "Bạn không được tự phê duyệt nội dung mình đã sửa; cần một người khác có vai trò “{role}”.",
  "edit.checking": "Đang kiểm tra lệnh đã sửa…",
  "edit.accepted": "Chính sách chấp nhận các giá trị này.",
  "edit.needsApproval": "Các giá trị này cần được phê duyệt: {role}",
  "edit.refused": "Các giá trị này sẽ bị từ chối.",
  "edit.error.required": "Ô này là bắt buộc.",
  "edit.error.number": "Đây không phải là số.",
  "edit.error.integer": "Đây không phải là số nguyên.",
  "edit.error.json": "JSON không hợp lệ, từ dòng {line}, cột {column}.",
  "edit.error.duplicate": "Tên {n} xuất hiện hai lần.",
  "edit.error.digits": "Số {n} quá lớn, quá nhỏ hoặc có quá nhiều chữ số nên không thể lưu chính xác.",
  "edit.error.refused": "Giá trị này không được chấp nhận.",
  "edit.error.object": "Tham số phải là một đối tượng JSON.",
  "edit.error.min": "Ít nhất là {n}.",
  "edit.error.max": "Nhiều nhất là {n}.",
  "edit.error.above": "Lớn hơn {n}.",
  "edit.error.below": "Nhỏ hơn {n}.",
  "edit.error.minLength": "Ít nhất {n} ký tự.",
  "edit.error.maxLength": "Nhiều nhất {n} ký tự.",
  "edit.error.minItems": "Ít nhất {n} mục.",
  "edit.error.maxItems": "Nhiều nhất {n} mục.",
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
  "edit.leaveOut": "Không đặt",
  "edit.error.multiple": "Phải là bội số của {n}.",

  "interrupt.answer": "Câu trả lời của bạn",
  "interrupt.json": "Câu trả lời của bạn, dạng JSON",
  "interrupt.yes": "Có",
  "interrupt.no": "Không",

  "elicit.says": "Máy chủ “{server}” nói, chưa được kiểm chứng",
  "elicit.address": "Địa chỉ",
  "elicit.host": "Dẫn tới",
  "elicit.open": "Mở địa chỉ",
  "elicit.newTab": "trong thẻ mới",
  "elicit.noLink": "Đây không phải địa chỉ trang web nên không thể mở từ đây.",
  "elicit.accept": "Chấp nhận và gửi",
  "elicit.done": "Đã xong",
  "elicit.decline": "Từ chối",
  "elicit.cancel": "Hủy",
  "elicit.hint": "“Từ chối” báo cho máy chủ rằng bạn không đồng ý. “Hủy” báo rằng bạn chưa lựa chọn.",
};

const done = {
  approve: "Đã phê duyệt",
  reject: "Đã từ chối",
  edit: "Đã phê duyệt với thay đổi",
  respond: "Đã có người nhập kết quả",
  defer: "Để quyết định sau",
};
const how = { decided: "Đã quyết định", timeout: "Không ai quyết định kịp", cancelled: "Đã hủy" };
const errors: Partial<Record<string, string>> = {
  invalid_edit: "Tham số đã sửa không hợp với công cụ.",
  stale_action: "Yêu cầu đang chờ không còn là yêu cầu bạn đã xem. Hãy xem lại trước khi quyết định.",
  forbidden: "Bạn không được phép làm việc này.",
  // What the client says itself, without the server.
  offline: "Mất kết nối trước khi máy chủ trả lời.",
  closed: "Kết nối đã đóng.",
  unreachable: "Không kết nối được tới máy chủ.",
  unauthenticated: "Vui lòng đăng nhập.",
  bad_json: "Có ký tự không gửi được, chẳng hạn một nửa biểu tượng cảm xúc.",
  too_large: "Nội dung quá lớn đối với máy chủ.",
};

const resolved = ({ resolution = "decided", by, answers, decisions, resume }: Ending = {}): string => {
  const words = answers || resume !== undefined ? ["Đã trả lời"] : [...new Set(decisions?.map((decision) => done[decision.type]))];
  const what = resolution === "decided" && words.length > 0 ? words.join(", ") : ((how as { [word: string]: string })[resolution] ?? how.decided);
  return by ? `${what} bởi ${by}` : what;
};

/** All but the words of refusals, for pages that have their own. */
export const words: Omit<Labels, "error"> = {
  language: "vi",
  texts,
  choices: { approve: "Phê duyệt", reject: "Từ chối", edit: "Sửa", respond: "Nhập kết quả thay", defer: "Quyết định sau" },
  again: "Thử lại",
  reason: "Lý do (agent sẽ đọc)",
  result: "Kết quả đưa cho agent",
  comment: "Nhận xét cho agent",
  questions: {
    place: (n, of) => `Câu hỏi ${n}/${of}`,
    several: "Chọn một hoặc nhiều.",
    skipped: "Đã bỏ qua. Chọn một mục nếu bạn vẫn muốn trả lời.",
    noPreference: "Không có ưu tiên",
    own: "Câu trả lời của bạn",
    ownFor: (option) => `Câu trả lời của bạn cho “${option}”`,
    choose: "Hãy chọn câu trả lời hoặc bỏ qua câu hỏi này.",
    write: "Hãy nhập câu trả lời hoặc chọn mục khác.",
    next: "Tiếp tục",
    review: "Xem lại câu trả lời",
    send: "Gửi câu trả lời",
    sendAll: "Gửi câu trả lời",
    back: "Quay lại",
    skip: "Bỏ qua",
    decline: "Không trả lời",
    reason: "Lý do (agent sẽ đọc)",
    reasonPlaceholder: "Ví dụ: bạn tự quyết định nhé",
    reviewHeading: "Câu trả lời của bạn",
    change: "Sửa",
    changeOne: (question) => `Sửa câu trả lời cho: ${question}`,
  },
  send: "Gửi",
  sending: "Đang gửi…",
  sent: "Đã gửi.",
  voted: "Bạn đã phê duyệt.",
  until: "Đến",
  choose: "Hãy chọn cho từng lệnh.",
  unreadable: "Không hiển thị được các câu hỏi này.",
  waitingFor: (role) => (role === undefined ? "Đang chờ chủ phiên" : `Đang chờ ${role}`),
  progress: (approved, quorum) => `${approved}/${quorum} đã phê duyệt`,
  inDoubt: "Lệnh này có thể đã chạy, và có thể vẫn đang chạy: không rõ kết quả. Phê duyệt để chạy lại.",
  late: "Phản hồi của bạn đến quá muộn nên không được tính.",
  dismiss: "Đã hiểu",
  resolved,
};

export const vietnamese: Labels = {
  ...words,
  error: ({ code, textCode, message, details }) => {
    if (code === "approval_already_resolved") return `Yêu cầu này đã được xử lý: ${resolved(details as Ending)}.`;
    if (code.startsWith("http_")) return `Không thực hiện được: câu trả lời nhận được không phải của máy chủ (HTTP ${code.slice(5)}).`;
    // The server's own words are English.
    return errors[textCode] ?? `Không thực hiện được. Máy chủ cho biết: ${message || code}`;
  },
};
