//! The languages of every text the server itself produces (SPEC W6, C).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session's language, fixed when it is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Locale {
    /// English
    #[default]
    En,
    /// Vietnamese
    Vi,
    /// Chinese
    Zh,
}

/// A text for the model or the reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// The result of a rejected call without a reviewer's message (SPEC W6).
    Rejected,
    /// The result of a call nobody decided in time (SPEC W7).
    TimedOut,
    /// The result of a call that was waiting when its turn was cancelled.
    Cancelled,
    /// The result of a call that was running when its turn was cancelled.
    CancelledRunning,
    /// The result of a call whose outcome a crash left unknown and that a person gave up (SPEC R4).
    OutcomeUnknown,
    /// Before the result of a call whose arguments a reviewer changed; what ran follows (SPEC S10).
    Edited,
    /// Before a result that a person supplied instead of running the call.
    Responded,
}

impl Locale {
    /// The locale named `name` (`en`, `vi`, `zh`).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Locale> {
        match name {
            "en" => Some(Locale::En),
            "vi" => Some(Locale::Vi),
            "zh" => Some(Locale::Zh),
            _ => None,
        }
    }

    /// The text in this language.
    #[must_use]
    pub fn text(self, text: Text) -> &'static str {
        match (text, self) {
            (Text::Rejected, Locale::En) => "The user rejected this action",
            (Text::Rejected, Locale::Vi) => "Thao tác đã bị người dùng từ chối",
            (Text::Rejected, Locale::Zh) => "操作已被用户取消",
            (Text::TimedOut, Locale::En) => "Nobody decided in time; the action was rejected",
            (Text::TimedOut, Locale::Vi) => "Không ai quyết định kịp thời; thao tác đã bị từ chối",
            (Text::TimedOut, Locale::Zh) => "无人及时决定,操作已被拒绝",
            (Text::Cancelled, Locale::En) => "Cancelled before it ran",
            (Text::Cancelled, Locale::Vi) => "Đã hủy trước khi chạy",
            (Text::Cancelled, Locale::Zh) => "在执行前已取消",
            (Text::CancelledRunning, Locale::En) => "Cancelled while it was running; it may have taken effect",
            (Text::CancelledRunning, Locale::Vi) => "Đã hủy khi đang chạy; có thể đã có hiệu lực",
            (Text::CancelledRunning, Locale::Zh) => "在执行过程中被取消;可能已经生效",
            (Text::OutcomeUnknown, Locale::En) => {
                "It is not known whether this action took effect; it was not run again"
            }
            (Text::OutcomeUnknown, Locale::Vi) => {
                "Không rõ thao tác này đã có hiệu lực hay chưa; nó không được chạy lại"
            }
            (Text::OutcomeUnknown, Locale::Zh) => "不清楚该操作是否已生效;没有再次执行",
            (Text::Edited, Locale::En) => "A reviewer changed this call. What ran:",
            (Text::Edited, Locale::Vi) => "Người duyệt đã sửa lệnh gọi này. Lệnh đã chạy:",
            (Text::Edited, Locale::Zh) => "审批人修改了此调用。实际执行的是:",
            (Text::Responded, Locale::En) => "The call was not run; a person supplied this result:",
            (Text::Responded, Locale::Vi) => "Lệnh gọi không được chạy; một người đã cung cấp kết quả này:",
            (Text::Responded, Locale::Zh) => "该调用未执行;由人工提供的结果:",
        }
    }
}
