//! A bounded decoder of server-sent events, the framing of every provider's stream.
//!
//! It follows the WHATWG rules (`\n`, `\r` and `\r\n` end a line, a byte order mark is skipped, an event
//! that is not ended by a blank line is dropped) and differs in one thing: it refuses lines and events
//! above a limit, so that a server cannot fill our memory.

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// The `event` field; empty if the stream names none.
    pub event: String,
    /// The `data` lines, joined by `\n`. Never absent: events without data are not reported.
    pub data: String,
}

/// A line or an event is larger than the limit. The decoder must no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is larger than {limit} bytes")]
pub struct SseTooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

/// Turns the bytes of a stream, cut anywhere, into events.
#[derive(Debug)]
pub struct SseDecoder {
    limit: usize,
    /// The line that is not ended yet.
    line: Vec<u8>,
    event: String,
    data: String,
    /// Whether the open event has a `data` line, which may be empty.
    has_data: bool,
    /// Whether the last byte was `\r`, so that a `\n` right after it ends no line.
    after_cr: bool,
    first_line: bool,
}

impl SseDecoder {
    /// A decoder that takes lines and events of up to `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> SseDecoder {
        SseDecoder {
            limit,
            line: Vec::new(),
            event: String::new(),
            data: String::new(),
            has_data: false,
            after_cr: false,
            first_line: true,
        }
    }

    /// Takes the next bytes and appends the events they complete to `events`.
    ///
    /// # Errors
    /// A line, or the data of an event, is larger than the limit.
    pub fn feed(&mut self, mut bytes: &[u8], events: &mut impl Extend<SseEvent>) -> Result<(), SseTooLarge> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > self.limit {
                return Err(SseTooLarge { limit: self.limit });
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            self.take_line(&line, events)?;
            // Keeps the allocation for the next line.
            self.line = line;
            self.line.clear();
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8], events: &mut impl Extend<SseEvent>) -> Result<(), SseTooLarge> {
        let first = std::mem::take(&mut self.first_line);
        let line = if first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            let data = std::mem::take(&mut self.data);
            if std::mem::take(&mut self.has_data) {
                events.extend([SseEvent { event, data }]);
            }
            return Ok(());
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        // A comment has an empty name.
        let value = String::from_utf8_lossy(value.strip_prefix(b" ").unwrap_or(value));
        match field {
            b"data" => {
                if self.data.len() + value.len() + 1 > self.limit {
                    return Err(SseTooLarge { limit: self.limit });
                }
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(&value);
            }
            b"event" => self.event = value.into_owned(),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(parts: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::new(1000);
        let mut events = Vec::new();
        for part in parts {
            decoder.feed(part, &mut events).unwrap();
        }
        events.into_iter().map(|e| (e.event, e.data)).collect()
    }

    fn pair(event: &str, data: &str) -> (String, String) {
        (event.to_owned(), data.to_owned())
    }

    const STREAM: &str = "\u{feff}: hello\r\ndata: {\"a\": \"đô €🙂\"}\r\n\r\nevent: error\ndata:one\ndata: two\n\n\
         id: 7\rdata\r\rretry: 5\n\nevent: only\n\ndata:  x: y\n\ndata: unfinished\n";

    fn expected() -> Vec<(String, String)> {
        vec![
            pair("", "{\"a\": \"đô €🙂\"}"),
            pair("error", "one\ntwo"),
            pair("", ""),
            // The blank line that ends an event without data clears its name.
            pair("", " x: y"),
        ]
    }

    #[test]
    fn fields_line_ends_comments_and_the_unfinished_event_follow_the_standard() {
        assert_eq!(decode(&[STREAM.as_bytes()]), expected());
    }

    #[test]
    fn a_stream_cut_at_any_byte_gives_the_same_events() {
        let bytes = STREAM.as_bytes();
        for cut in 0..=bytes.len() {
            assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]), expected(), "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single), expected());
    }

    #[test]
    fn lines_and_events_above_the_limit_are_refused_and_not_kept() {
        let mut decoder = SseDecoder::new(10);
        let mut events = Vec::new();
        assert_eq!(decoder.feed(b"data:12345\n\n", &mut events), Ok(()));
        assert_eq!(decoder.feed(b"data:1234", &mut events), Ok(()));
        assert_eq!(decoder.feed(b"56", &mut events), Err(SseTooLarge { limit: 10 }));

        let mut decoder = SseDecoder::new(10);
        assert_eq!(decoder.feed(b"data:1234\ndata:5678\n", &mut events), Ok(()));
        assert_eq!(decoder.feed(b"data:9\n", &mut events), Err(SseTooLarge { limit: 10 }));
        assert_eq!(events.len(), 1);
    }

    proptest! {
        /// Whatever the events, their encoding and the cuts are: they come out unchanged.
        #[test]
        fn any_events_survive_any_line_ends_and_any_cuts(
            events in prop::collection::vec(("[a-z]{0,5}", prop::collection::vec("[^\r\n]{0,12}", 1..4)), 0..6),
            ends in prop::collection::vec(0..3_usize, 1..8),
            cuts in prop::collection::vec(1..9_usize, 1..12),
        ) {
            let mut ends = ends.iter().cycle().map(|end| ["\n", "\r", "\r\n"][*end]);
            let mut text = String::new();
            for (name, lines) in &events {
                // A CR line end must not meet the LF of the next one, which would merge them.
                let end = ends.next().unwrap();
                if !name.is_empty() {
                    text.push_str(&format!("event: {name}{end}"));
                }
                for line in lines {
                    text.push_str(&format!("data: {line}{end}"));
                }
                text.push_str(&format!(": end{end}{end}"));
                text.push_str(": the next event\n");
            }
            let mut rest = text.as_bytes();
            let mut parts = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (part, tail) = rest.split_at((*cut).min(rest.len()));
                parts.push(part);
                rest = tail;
            }
            let want: Vec<_> = events.iter().map(|(name, lines)| (name.clone(), lines.join("\n"))).collect();
            prop_assert_eq!(decode(&parts), want);
        }

        /// Arbitrary bytes never panic and never make it keep more than the limit.
        #[test]
        fn any_bytes_are_safe(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..20)) {
            let mut decoder = SseDecoder::new(64);
            let mut events = Vec::new();
            for part in &parts {
                if decoder.feed(part, &mut events).is_err() {
                    break;
                }
                prop_assert!(decoder.line.len() <= 64 && decoder.data.len() <= 64);
            }
        }
    }
}
