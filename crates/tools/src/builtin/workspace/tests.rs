use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use super::{going::Going, *};

fn workspace() -> (tempfile::TempDir, Workspace) {
    let folder = tempfile::tempdir().expect("folder");
    let workspace = folder.path().join("work");
    fs::create_dir(&workspace).expect("work");
    fs::write(folder.path().join("secret"), "secret").expect("secret");
    let opened = Workspace::open(&workspace).expect("workspace");
    (folder, opened)
}

fn place(path: &str) -> Place {
    Place::file(path).expect("place")
}

fn write(workspace: &Workspace, path: &str, text: &str) -> Result<(), String> {
    let place = place(path);
    let before = workspace.look(&place).map_err(|error| error.message)?;
    let change = Change::write(place, before, text.to_owned());
    workspace.commit(vec![change], &Going::default()).map_err(|error| error.message)
}

/// All names in the workspace's folder itself.
fn names(workspace: &Workspace) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(workspace.path())
        .expect("read")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn s12_a_file_is_written_whole_and_keeps_its_mode() {
    let (_folder, workspace) = workspace();
    write(&workspace, "a/b/c.txt", "one").expect("new");
    let path = workspace.path().join("a/b/c.txt");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("mode");
    write(&workspace, "a/b/c.txt", "two").expect("again");
    assert_eq!(fs::read_to_string(&path).expect("read"), "two");
    assert_eq!(fs::metadata(&path).expect("stat").permissions().mode() & 0o7777, 0o750);
    assert_eq!(names(&workspace), ["a"]);
    assert_eq!(fs::read_dir(workspace.path().join("a/b")).expect("read").count(), 1);
}

#[test]
fn s12_no_link_is_followed_wherever_it_points() {
    let (folder, workspace) = workspace();
    let at = |name: &str| workspace.path().join(name);
    fs::create_dir(at("inside")).expect("inside");
    fs::write(at("inside/file"), "x").expect("file");
    symlink(folder.path(), at("out")).expect("link");
    symlink("inside", at("in")).expect("link");
    symlink(folder.path().join("secret"), at("secret")).expect("link");
    symlink(folder.path().join("nothing"), at("dangling")).expect("link");
    for path in ["out/secret", "in/file", "secret", "dangling", "out/new"] {
        let error = workspace.text(&place(path)).expect_err(path).message;
        assert!(error.contains("is a symbolic link"), "{path}: {error}");
        let error = write(&workspace, path, "mine").expect_err(path);
        assert!(error.contains("is a symbolic link"), "{path}: {error}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("secret")).expect("read"), "secret");
    assert!(!folder.path().join("new").exists() && !folder.path().join("nothing").exists());
}

#[test]
fn s12_only_regular_files_are_accepted() {
    let (_folder, workspace) = workspace();
    let at = |name: &str| workspace.path().join(name);
    fs::create_dir(at("folder")).expect("folder");
    assert!(std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo").success());
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("socket");
    for (path, told) in [
        ("folder", "is a folder"),
        ("pipe", "is not a regular file"),
        ("socket", "is not a regular file"),
        ("pipe/x", "is not a folder"),
    ] {
        assert!(workspace.text(&place(path)).expect_err(path).message.contains(told), "{path}");
        assert!(write(&workspace, path, "x").expect_err(path).contains(told), "{path}");
    }
}

#[test]
fn s12_huge_and_binary_files_are_refused_unread() {
    let (_folder, workspace) = workspace();
    let at = |name: &str| workspace.path().join(name);
    fs::File::create(at("huge")).expect("file").set_len(1 << 40).expect("length");
    fs::write(at("nul"), "a\0b").expect("write");
    fs::write(at("latin"), b"caf\xe9").expect("write");
    for (path, told) in
        [("huge", "at most 4194304 can be read"), ("nul", "binary"), ("latin", "binary"), ("none", "not there")]
    {
        let error = workspace.text(&place(path)).expect_err(path).message;
        assert!(error.contains(told), "{path}: {error}");
    }
    let error = write(&workspace, "new", &"x".repeat(FILE_BYTES + 1)).expect_err("too large");
    assert!(error.contains("at most 4194304 can be written"), "{error}");
    assert_eq!(names(&workspace), ["huge", "latin", "nul"]);
}

#[test]
fn s12_a_change_of_a_file_that_changed_meanwhile_is_refused() {
    let (_folder, workspace) = workspace();
    write(&workspace, "a", "one").expect("a");
    let seen = workspace.look(&place("a")).expect("look");
    let nothing = workspace.look(&place("b")).expect("look");
    fs::write(workspace.path().join("a"), "theirs").expect("write");
    fs::write(workspace.path().join("b"), "theirs").expect("write");
    for (path, before, told) in [("a", seen, "was changed meanwhile"), ("b", nothing, "is there already")] {
        let changes = vec![
            Change::write(place("folder/c"), There::Nothing, "x".to_owned()),
            Change::write(place(path), before, "mine".to_owned()),
        ];
        let error = workspace.commit(changes, &Going::default()).expect_err(path).message;
        assert!(error.contains(told), "{error}");
        assert_eq!(fs::read_to_string(workspace.path().join(path)).expect("read"), "theirs");
    }
    // Nothing is left behind either.
    assert_eq!(names(&workspace), ["a", "b"]);
}

#[test]
fn s12_changes_that_fail_half_way_are_undone() {
    let (_folder, workspace) = workspace();
    for name in ["a", "b", "c"] {
        write(&workspace, name, name).expect(name);
    }
    let found = |name: &str| workspace.text(&place(name)).expect("found");
    // The last one fails: its folder has become a file by then.
    let changes = vec![
        Change::write(place("a"), There::Text(found("a")), "new".to_owned()),
        Change::remove(place("b"), found("b")),
        Change::write(place("d"), There::Nothing, "new".to_owned()),
        Change::write(place("d"), There::Nothing, "again".to_owned()),
    ];
    let error = workspace.commit(changes, &Going::default()).expect_err("fails").message;
    assert_eq!(error, "d is there already; nothing was changed");
    assert_eq!(names(&workspace), ["a", "b", "c"]);
    for name in ["a", "b", "c"] {
        assert_eq!(found(name).text, name);
    }
}

#[tokio::test]
async fn a_cancelled_call_writes_nothing() {
    let (_folder, workspace) = workspace();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let (ended, has_ended) = std::sync::mpsc::channel();
    let on = workspace.clone();
    let call = tokio::spawn(blocking(move |going| {
        begun.send(()).expect("begun");
        goes_on.recv().expect("go on");
        let change = Change::write(place("a"), There::Nothing, "x".to_owned());
        let outcome = on.commit(vec![change], going).map_err(|error| error.message);
        ended.send(outcome).expect("ended");
        Ok(())
    }));
    tokio::task::spawn_blocking(move || has_begun.recv().expect("begun")).await.expect("join");
    call.abort();
    assert!(call.await.is_err());
    go_on.send(()).expect("go on");
    let outcome = tokio::task::spawn_blocking(move || has_ended.recv().expect("ended")).await.expect("join");
    assert_eq!(outcome, Err("the call was cancelled".to_owned()));
    assert!(names(&workspace).is_empty());
}

/// While the folder and the file are replaced by links to outside and back, thousands of times.
#[test]
fn s12_links_that_come_and_go_never_lead_outside() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let (folder, workspace) = workspace();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).expect("outside");
    fs::write(outside.join("file"), "outside").expect("file");
    let (dir, kept, link) =
        (workspace.path().join("dir"), workspace.path().join("kept"), workspace.path().join("link"));
    fs::create_dir(&dir).expect("dir");
    symlink(&outside, &link).expect("link");
    let stop = AtomicBool::new(false);
    let (mut written, mut refused, mut shown_outside) = (0_u32, 0_u32, 0_u32);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = dir.join("file");
            while !stop.load(Ordering::Relaxed) {
                // The folder becomes a link, and a folder again.
                let _ = fs::rename(&dir, &kept);
                let _ = fs::rename(&link, &dir);
                let _ = fs::rename(&dir, &link);
                let _ = fs::rename(&kept, &dir);
                // The same for the file.
                let _ = fs::remove_file(&file);
                let _ = symlink(outside.join("file"), &file);
                let _ = fs::remove_file(&file);
            }
        });
        let begun = std::time::Instant::now();
        for i in 0.. {
            // On a busy machine one side can run alone for a long time.
            let both = written > 0 && refused > 0;
            if i >= 4000 && (both || begun.elapsed() > std::time::Duration::from_secs(60)) {
                break;
            }
            match write(&workspace, "dir/file", "inside") {
                Ok(()) => written += 1,
                Err(_) => refused += 1,
            }
            if let Ok(There::Text(found)) = workspace.look(&place("dir/file")) {
                shown_outside += u32::from(found.text == "outside");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(shown_outside, 0);
    // Nothing else writes there, so one change would stay visible.
    assert_eq!(fs::read_to_string(outside.join("file")).expect("read"), "outside");
    assert_eq!(fs::read_dir(&outside).expect("read").count(), 1);
    assert!(written > 0 && refused > 0, "{written} written, {refused} refused: both sides must have had their turn");
}

#[test]
fn s12_x_the_programs_own_files_are_neither_read_nor_changed_under_any_name() {
    let (folder, workspace) = workspace();
    let work = workspace.path().to_owned();
    fs::create_dir(work.join("data")).expect("data");
    fs::write(work.join("data/store"), "sessions").expect("store");
    fs::hard_link(work.join("data/store"), work.join("another")).expect("link");
    symlink(work.join("data"), folder.path().join("aside")).expect("link");
    // Named by a path through a link, and one of them does not exist yet.
    let own = ["data/store", "../aside/store-wal"].map(|path| work.join(path));
    let workspace = workspace.without(own);
    for path in ["data/store", "another", "data/store-wal"] {
        let refused = workspace.look(&place(path)).expect_err("not for tools").message;
        assert!(refused.contains("belongs to the server itself"), "{refused}");
        assert!(write(&workspace, path, "x").is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(work.join("data/store")).expect("store"), "sessions");
    write(&workspace, "store-wal", "x").expect("a file of that name elsewhere");
}

/// A folder in the place of SQLite's journal would keep the store from opening.
#[test]
fn s12_x_no_folder_is_made_in_the_place_of_a_file_of_the_programs_own() {
    let (_folder, workspace) = workspace();
    let own = ["store-journal", "keys/jwks.json"].map(|path| workspace.path().join(path));
    let workspace = workspace.without(own);
    for path in ["store-journal/x", "store-journal/a/b"] {
        let refused = workspace.look(&place(path)).expect_err("not for tools").message;
        assert!(refused.contains("belongs to the server itself"), "{refused}");
    }
    // `commit` is on its own: the folder of an own file may be there only once it is made, or since the preview.
    for path in ["store-journal/x", "store-journal/a/b", "keys/jwks.json", "keys/jwks.json/x"] {
        let change = Change::write(place(path), There::Nothing, "x".to_owned());
        let refused = workspace.commit(vec![change], &Going::default()).expect_err("not for tools").message;
        assert!(refused.contains("belongs to the server itself"), "{refused}");
        assert!(names(&workspace).is_empty(), "{path}: nothing is left behind");
    }
    write(&workspace, "keys/others", "x").expect("a file beside it");
    write(&workspace, "a/store-journal/x", "x").expect("a folder of that name elsewhere");
}
