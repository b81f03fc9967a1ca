//! The writer's position in the arguments: a JSON pointer (RFC 6901) with the escapes of the form.

use super::line;

/// Longest pointer in a warning, in bytes; a longer one names an enclosing place.
const POINTER_BYTES: usize = 1000;

/// One step into a container.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

/// The steps to a place. The pointer's text is built on demand, and each step's part of it once: a long name may be the
/// place of very many warnings.
#[derive(Default)]
pub(super) struct Place<'a> {
    steps: Vec<Step<'a>>,
    /// The pointer to the first steps, those in `ends`.
    pointer: String,
    /// The length of the pointer through each of these steps.
    ends: Vec<End>,
}

#[derive(Clone, Copy, Default)]
struct End {
    bytes: usize,
    /// Whether a step did not fit: no later one is named.
    cut: bool,
}

impl<'a> Place<'a> {
    pub(super) fn enter(&mut self, step: Step<'a>) {
        self.steps.push(step);
    }

    pub(super) fn leave(&mut self) {
        self.steps.pop();
        if self.ends.len() > self.steps.len() {
            self.ends.truncate(self.steps.len());
            self.pointer.truncate(self.end().bytes);
        }
    }

    /// The pointer to this place, or to the closest enclosing one that fits.
    pub(super) fn pointer(&mut self) -> &str {
        while let Some(step) = self.steps.get(self.ends.len()) {
            let mut end = self.end();
            if !end.cut {
                match part(*step).filter(|part| end.bytes + part.len() <= POINTER_BYTES) {
                    Some(part) => {
                        self.pointer.push('/');
                        self.pointer.push_str(&part);
                    }
                    None => end.cut = true,
                }
                end.bytes = self.pointer.len();
            }
            self.ends.push(end);
        }
        &self.pointer
    }

    fn end(&self) -> End {
        self.ends.last().copied().unwrap_or_default()
    }
}

/// A step as a part of a pointer; `None` if it is too long for one.
fn part(step: Step<'_>) -> Option<String> {
    match step {
        Step::Member(name) if name.len() > POINTER_BYTES => None,
        Step::Member(name) => Some(line(&name.replace('~', "~0").replace('/', "~1"))),
        Step::Item(i) => Some(i.to_string()),
    }
}
