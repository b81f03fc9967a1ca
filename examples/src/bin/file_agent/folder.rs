//! The tools of the file agent. They reach one folder and nothing outside it.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use countersign::tool::{ToolEntry, ToolError, function};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

/// The limit of a read, since the model has to read it.
const READ_BYTES: u64 = 256 * 1024;

#[derive(Deserialize, JsonSchema)]
struct File {
    /// 文件路径，相对于工作文件夹
    path: String,
}

#[derive(Deserialize, JsonSchema)]
struct Write {
    /// 文件路径，相对于工作文件夹
    path: String,
    /// 文件的全部内容
    content: String,
}

#[derive(Deserialize, JsonSchema)]
struct Edit {
    /// 文件路径，相对于工作文件夹
    path: String,
    /// 要替换的原文，在文件中必须恰好出现一次
    old_text: String,
    /// 替换后的文字
    new_text: String,
}

#[derive(Deserialize, JsonSchema)]
struct List {
    /// 文件夹路径，相对于工作文件夹；省略则为工作文件夹本身
    path: Option<String>,
}

/// The folder that the tools are confined to.
#[derive(Clone)]
pub(crate) struct Folder(Arc<Path>);

impl Folder {
    /// Opens the folder; it is created if missing.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn open(path: &Path) -> io::Result<Folder> {
        fs::create_dir_all(path)?;
        Ok(Folder(path.canonicalize()?.into()))
    }

    /// The tools. None has an approval rule of its own.
    pub(crate) fn tools(&self) -> [ToolEntry; 5] {
        [
            self.tool("read_file", "读取一个文本文件", |folder, File { path }| folder.read(&path)),
            self.tool("list_files", "列出文件夹中的文件", |folder, List { path }| {
                folder.list(path.as_deref().unwrap_or("."))
            }),
            self.tool(
                "write_file",
                "写入一个文本文件，已有的内容会被覆盖",
                |folder, Write { path, content }| folder.write(&path, &content),
            ),
            self.tool("edit_file", "替换文本文件中的一处文字", |folder, edit: Edit| folder.edit(&edit)),
            self.tool("delete_file", "删除一个文件", |folder, File { path }| folder.delete(&path)),
        ]
    }

    fn tool<T>(&self, name: &str, description: &str, work: fn(&Folder, T) -> Result<String, String>) -> ToolEntry
    where
        T: DeserializeOwned + JsonSchema + Send + 'static,
    {
        let folder = self.clone();
        function::tool(name, description, move |args: T| {
            let folder = folder.clone();
            async move {
                let done = tokio::task::spawn_blocking(move || work(&folder, args)).await;
                done.map_err(|error| ToolError::new(error.to_string()))?.map_err(ToolError::from)
            }
        })
    }

    /// Where a path leads, if that is inside. Links could lead anywhere and are not followed at all.
    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let mut inside = self.0.to_path_buf();
        for component in Path::new(path).components() {
            match component {
                Component::CurDir => {}
                Component::Normal(name) => inside.push(name),
                _ => return Err(format!("{path} 不在工作文件夹内：请使用不含 .. 的相对路径")),
            }
            if inside.is_symlink() {
                return Err(format!("{path} 经过一个符号链接，不能使用"));
            }
        }
        Ok(inside)
    }

    fn read(&self, path: &str) -> Result<String, String> {
        let file = self.inside(path)?;
        let bytes = fs::metadata(&file).map_err(|error| failed(path, &error))?.len();
        if bytes > READ_BYTES {
            return Err(format!("{path} 有 {bytes} 字节，最多只能读取 {READ_BYTES} 字节"));
        }
        fs::read_to_string(&file).map_err(|error| failed(path, &error))
    }

    fn list(&self, path: &str) -> Result<String, String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.inside(path)?).map_err(|error| failed(path, &error))? {
            let entry = entry.map_err(|error| failed(path, &error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            names.push(if entry.path().is_dir() { format!("{name}/") } else { name });
        }
        names.sort();
        Ok(if names.is_empty() { "（空）".to_owned() } else { names.join("\n") })
    }

    fn write(&self, path: &str, content: &str) -> Result<String, String> {
        let file = self.inside(path)?;
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent).map_err(|error| failed(path, &error))?;
        }
        fs::write(&file, content).map_err(|error| failed(path, &error))?;
        Ok(format!("已写入 {path}（{} 字节）", content.len()))
    }

    fn edit(&self, Edit { path, old_text, new_text }: &Edit) -> Result<String, String> {
        let content = self.read(path)?;
        let found = content.matches(old_text.as_str()).count();
        if old_text.is_empty() || found != 1 {
            return Err(format!("原文在 {path} 中出现 {found} 次，必须恰好出现一次"));
        }
        self.write(path, &content.replacen(old_text.as_str(), new_text, 1))?;
        Ok(format!("已修改 {path}"))
    }

    fn delete(&self, path: &str) -> Result<String, String> {
        fs::remove_file(self.inside(path)?).map_err(|error| failed(path, &error))?;
        Ok(format!("已删除 {path}"))
    }
}

fn failed(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{path} 不存在"),
        _ => format!("{path}：{error}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn g4_the_tools_of_the_file_agent_stay_in_their_folder() {
        let outside = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(&outside.path().join("work")).expect("the folder");
        fs::write(outside.path().join("secret.txt"), "secret").expect("written");
        std::os::unix::fs::symlink(outside.path(), outside.path().join("work/link")).expect("a link");
        let absolute = outside.path().join("secret.txt");
        for path in ["../secret.txt", "a/../../secret.txt", "link/secret.txt", absolute.to_str().expect("a path")] {
            folder.read(path).expect_err(path);
            folder.write(path, "changed").expect_err(path);
            folder.delete(path).expect_err(path);
            folder.list(path).expect_err(path);
        }
        assert_eq!(fs::read_to_string(outside.path().join("secret.txt")).expect("still there"), "secret");
    }

    #[test]
    fn g4_the_tools_of_the_file_agent_do_what_they_say() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(place.path()).expect("the folder");
        assert_eq!(folder.list(".").expect("listed"), "（空）");
        folder.write("notes/计划.txt", "一\n二\n").expect("written");
        assert_eq!(folder.list(".").expect("listed"), "notes/");
        let edit = |old: &str| Edit { path: "notes/计划.txt".into(), old_text: old.into(), new_text: "三".into() };
        folder.edit(&edit("四")).expect_err("not in it");
        folder.edit(&edit("\n")).expect_err("twice in it");
        folder.edit(&edit("二")).expect("edited");
        assert_eq!(folder.read("notes/计划.txt").expect("read"), "一\n三\n");
        folder.delete("notes/计划.txt").expect("deleted");
        assert_eq!(folder.read("notes/计划.txt").expect_err("gone"), "notes/计划.txt 不存在");
    }
}
