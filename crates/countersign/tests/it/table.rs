//! Pages of comparisons: each behaviour has its row, and each row names existing tests.

use std::{collections::BTreeMap, fs, path::Path};

/// All that is written in the files of a folder of the repository.
pub fn text(folder: &str) -> String {
    fn below(folder: &Path) -> String {
        let files = fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path());
        files
            .map(|path| if path.is_dir() { below(&path) } else { fs::read_to_string(path).unwrap_or_default() })
            .collect()
    }
    below(&root().join(folder))
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Every number of each group, from the first to the last, has one row in the page, and its tests are in `code`.
pub fn is_complete(page: &str, code: &str, groups: &[(char, u32, u32)]) {
    let page = fs::read_to_string(root().join(page)).expect("the page");
    let mut rows: BTreeMap<String, String> = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let is_number = |cell: &&str| cell.len() > 1 && cell[1..].bytes().all(|b| b.is_ascii_digit());
        for number in cells[0].split(", ").filter(is_number) {
            let named: Vec<&str> =
                line.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2).collect();
            assert!(!named.is_empty(), "the row of {number} names no test");
            for name in named {
                assert!(code.contains(&format!("fn {name}(")), "{number} names the test {name}, which does not exist");
            }
            assert!(rows.insert(number.to_owned(), line.to_owned()).is_none(), "{number} has two rows");
        }
    }
    for (group, first, last) in groups {
        for number in *first..=*last {
            assert!(rows.remove(&format!("{group}{number}")).is_some(), "{group}{number} has no row");
        }
    }
    assert!(rows.is_empty(), "rows of nothing: {:?}", rows.keys());
}
