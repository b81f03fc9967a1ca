//! Stamps: a step is skipped if its inputs and results are unchanged since it last succeeded.

use std::{
    fs,
    hash::{DefaultHasher, Hasher as _},
    io,
    path::{Path, PathBuf},
};

use crate::Places;

/// Folders that are never an input.
const RESULTS: [&str; 4] = ["node_modules", "dist", "test-results", "playwright-report"];

/// The record of a step's last success.
pub(crate) struct Stamp {
    file: PathBuf,
    inputs: Vec<PathBuf>,
    /// The files that only this step produces.
    result: PathBuf,
}

impl Stamp {
    /// The stamp of step `name`, which turns `inputs` (files, or whole folders) into `result`.
    pub(crate) fn new(places: &Places, name: &str, inputs: Vec<PathBuf>, result: PathBuf) -> Stamp {
        Stamp { file: places.target.join("xtask").join(name), inputs, result }
    }

    /// Whether the step can be skipped.
    pub(crate) fn is_fresh(&self) -> bool {
        self.result.exists()
            && fs::read_to_string(&self.file).is_ok_and(|known| self.now().is_ok_and(|now| now == known))
    }

    /// Records the step's success. Failing to record it costs time, not correctness.
    pub(crate) fn set(&self) {
        let write = || {
            fs::create_dir_all(self.file.parent().unwrap_or_else(|| Path::new(".")))?;
            fs::write(&self.file, self.now()?)
        };
        let written: io::Result<()> = write();
        if let Err(error) = written {
            eprintln!("{} could not be written, so the step will be repeated: {error}", self.file.display());
        }
    }

    fn now(&self) -> io::Result<String> {
        let mut hasher = DefaultHasher::new();
        for input in &self.inputs {
            add(&mut hasher, input, &RESULTS)?;
        }
        add(&mut hasher, &self.result, &[])?;
        Ok(format!("{:016x}", hasher.finish()))
    }
}

/// Adds a file, or a folder with everything in it except the names in `without`.
fn add(hasher: &mut DefaultHasher, path: &Path, without: &[&str]) -> io::Result<()> {
    let name = path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes();
    hasher.write_usize(name.len());
    hasher.write(name);
    if path.is_dir() {
        let mut inside: Vec<PathBuf> =
            fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
        inside.retain(|path| !path.file_name().is_some_and(|name| without.iter().any(|known| name == *known)));
        inside.sort();
        hasher.write_usize(inside.len());
        inside.iter().try_for_each(|path| add(hasher, path, without))
    } else {
        let bytes = fs::read(path)?;
        hasher.write_usize(bytes.len());
        hasher.write(&bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_repeated_when_its_inputs_or_its_result_change() {
        let folder = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        let (sources, result) = (folder.join("sources"), folder.join("result"));
        fs::create_dir_all(sources.join("node_modules")).expect("folders");
        fs::write(sources.join("a"), "1").expect("a file");
        let places = Places { root: folder.clone(), target: folder.join("target") };
        let stamp = Stamp::new(&places, "step", vec![sources.clone()], result.clone());
        assert!(!stamp.is_fresh(), "never done");
        fs::write(&result, "made").expect("a file");
        stamp.set();
        assert!(stamp.is_fresh());
        fs::write(sources.join("node_modules/b"), "1").expect("a file");
        assert!(stamp.is_fresh(), "installed packages are not an input");
        fs::write(sources.join("a"), "2").expect("a file");
        assert!(!stamp.is_fresh(), "an input changed");
        fs::write(sources.join("a"), "1").expect("a file");
        assert!(stamp.is_fresh());
        fs::rename(sources.join("a"), sources.join("c")).expect("a file");
        assert!(!stamp.is_fresh(), "an input has another name");
        fs::rename(sources.join("c"), sources.join("a")).expect("a file");
        fs::write(&result, "something else").expect("a file");
        assert!(!stamp.is_fresh(), "the result is another");
        fs::remove_file(&result).expect("a file");
        assert!(!stamp.is_fresh(), "the result is gone");
        fs::remove_dir_all(&folder).expect("folders");
    }
}
