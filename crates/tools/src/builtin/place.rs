//! A path below the workspace, as a model writes it.

use std::fmt;

use countersign_engine::tool::ToolError;

/// Longest path, in bytes.
const PATH_BYTES: usize = 1024;
/// Longest name of a file or folder, in bytes: that of common file systems.
const NAME_BYTES: usize = 255;

/// A file or folder below the workspace. Its parts are plain names: none is empty, `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(Vec<String>);

impl Place {
    /// Reads a path such as `src/main.rs`. `.` is the workspace itself. Only its plain form is valid: a condition about
    /// the argument, and the reviewer, see the path that is used.
    ///
    /// # Errors
    /// It is absolute, leads up with `..`, is empty, too long, has a control character, or is not in its plain form:
    /// `./a`, `a//b`, `a/`.
    pub(super) fn read(path: &str) -> Result<Place, ToolError> {
        let bad = |what: &str| Err(ToolError::new(format!("the path {path:?} {what}")));
        if path.is_empty() {
            return bad("is empty; name a file below the workspace, such as \"src/main.rs\"");
        }
        if path.len() > PATH_BYTES {
            return Err(ToolError::new(format!("a path has at most {PATH_BYTES} bytes; this one has {}", path.len())));
        }
        if path.chars().any(char::is_control) {
            return bad("has a control character, which no path may have here");
        }
        if path.starts_with('/') {
            return bad("is absolute; paths are relative to the workspace, such as \"src/main.rs\"");
        }
        let parts: Vec<String> =
            path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect();
        if parts.iter().any(|part| part == "..") {
            return bad("has \"..\"; nothing outside the workspace can be reached, so name it from the workspace on");
        }
        if let Some(part) = parts.iter().find(|part| part.len() > NAME_BYTES) {
            return bad(&format!("has a name of {} bytes; a file or folder has at most {NAME_BYTES}", part.len()));
        }
        let place = Place(parts);
        let plain = place.to_string();
        if plain != path { bad(&format!("is to be written {plain:?}")) } else { Ok(place) }
    }

    /// Reads the path of a file, which cannot be the workspace itself.
    ///
    /// # Errors
    /// As [`Place::read`].
    pub(super) fn file(path: &str) -> Result<Place, ToolError> {
        let place = Place::read(path)?;
        if place.0.is_empty() {
            return Err(ToolError::new(format!("the path {path:?} names a folder, not a file")));
        }
        Ok(place)
    }

    /// Its parent folders.
    pub(super) fn folders(&self) -> &[String] {
        self.0.split_last().map_or(&[], |(_, folders)| folders)
    }

    /// Its own name; `.` for the workspace itself.
    pub(super) fn name(&self) -> &str {
        self.0.last().map_or(".", String::as_str)
    }

    /// All its parts.
    pub(super) fn parts(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { f.write_str(".") } else { f.write_str(&self.0.join("/")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s12_a_path_stays_below_the_workspace() {
        for path in ["", "/etc/passwd", "..", "a/../../b", "a/..", "./../x", "a\0b", "a\nb"] {
            assert!(Place::read(path).is_err(), "{path:?}");
        }
        for path in [".", "a/", "./", "./a", "a//b", "a/./b", "a/."] {
            assert!(Place::file(path).is_err(), "{path:?}");
        }
        assert!(Place::read("./a//b/.").expect_err("not plain").message.ends_with("is to be written \"a/b\""));
        let name = |bytes| format!("a/{}", "ü".repeat(bytes));
        assert!(Place::file(&name(128)).expect_err("too long").message.contains("256 bytes"));
        assert!(Place::file(&name(127)).is_ok());
        assert!(Place::read(&"a/".repeat(PATH_BYTES)).is_err());
        assert_eq!(Place::read("a/b/c").expect("place").to_string(), "a/b/c");
        assert_eq!(Place::read(".").expect("place").to_string(), ".");
        assert_eq!(Place::read("..a/b..").expect("place").to_string(), "..a/b..");
        let place = Place::file("a/b/c").expect("place");
        assert_eq!((place.folders(), place.name()), (&["a".to_owned(), "b".to_owned()][..], "c"));
    }
}
