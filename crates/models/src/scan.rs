//! Whether the arguments of a call are complete, while they are streamed.

/// Follows the brackets of an argument text, to know when it is a complete JSON value.
#[derive(Default)]
pub(super) struct Scan {
    state: ScanState,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ScanState {
    #[default]
    Empty,
    Open,
    Whole,
    /// Not an object or array, or more than one value: its end cannot be known.
    Unknown,
}

impl Scan {
    /// Whether it is one complete object or array.
    pub(super) fn is_whole(&self) -> bool {
        self.state == ScanState::Whole
    }

    /// Whether nothing has come but white space.
    pub(super) fn is_empty(&self) -> bool {
        self.state == ScanState::Empty
    }

    /// Takes the next part.
    pub(super) fn feed(&mut self, text: &[u8]) {
        for byte in text {
            match (self.state, *byte) {
                (ScanState::Unknown, _) => return,
                (ScanState::Open, _) if self.escaped => self.escaped = false,
                (ScanState::Open, b'\\') if self.in_string => self.escaped = true,
                (ScanState::Open, b'"') => self.in_string = !self.in_string,
                (ScanState::Open, _) if self.in_string => {}
                (_, b' ' | b'\t' | b'\r' | b'\n') => {}
                (ScanState::Empty | ScanState::Open, b'{' | b'[') => {
                    self.state = ScanState::Open;
                    self.depth += 1;
                }
                (ScanState::Open, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.state = ScanState::Whole;
                    }
                }
                (ScanState::Open, _) => {}
                (ScanState::Empty | ScanState::Whole, _) => self.state = ScanState::Unknown,
            }
        }
    }
}
