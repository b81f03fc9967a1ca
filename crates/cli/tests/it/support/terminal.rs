//! The command line against a test's server, and in a terminal.

use std::{
    io::{Read as _, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{BINARY, DEADLINE, Ended, Server, run};

impl Server {
    /// Runs a command beside this server and against it, with its environment and without a terminal.
    pub(crate) fn command(&self, arguments: &[&str]) -> Ended {
        self.command_with(arguments, "", &[])
    }

    /// The same as somebody with a token.
    pub(crate) fn command_as(&self, subject: &str, arguments: &[&str]) -> Ended {
        self.command_with(arguments, "", &[("COUNTERSIGN_TOKEN", &format!("{subject}-secret"))])
    }

    /// The same with this input and these variables.
    pub(crate) fn command_with(&self, arguments: &[&str], input: &str, env: &[(&str, &str)]) -> Ended {
        let url = format!("http://{}", self.address);
        let own = self.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let all: Vec<(&str, &str)> =
            own.chain(env.iter().copied()).chain([("COUNTERSIGN_URL", url.as_str())]).collect();
        run(&self.path(""), arguments, input, &all)
    }

    /// Runs it in a separate terminal.
    pub(crate) fn terminal(&self, arguments: &[&str], env: &[(&str, &str)]) -> Terminal {
        let words: Vec<String> = arguments.iter().map(|word| format!("'{word}'")).collect();
        let mut child = Command::new("script")
            .args(["-qec", &format!("exec '{BINARY}' {}", words.join(" ")), "/dev/null"])
            .current_dir(self.path(""))
            .env("COUNTERSIGN_URL", format!("http://{}", self.address))
            .env("SHELL", "/bin/sh")
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("script, of util-linux, is installed");
        let (keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let all = shown.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Terminal { child, keys, shown, read: 0 }
    }
}

impl Ended {
    /// The output of a command that succeeded.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}{}", self.stdout, self.stderr);
        &self.stdout
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok()).expect("JSON")
    }

    /// Checks that it failed with this code, printed nothing, and said this.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, says: &str) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        assert!(self.stderr.contains(says), "{says:?} is not in {}", self.stderr);
    }
}

/// A program in a terminal. Killed on drop.
pub(crate) struct Terminal {
    child: Child,
    keys: ChildStdin,
    shown: Arc<Mutex<Vec<u8>>>,
    /// How much of the output has been read.
    read: usize,
}

impl Terminal {
    /// Waits until this is on the screen, below what was seen before; returns all up to there.
    #[track_caller]
    pub(crate) fn see(&mut self, text: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let shown = self.shown();
            let new = &shown[self.read..];
            if let Some(at) = new.find(text) {
                let seen = new[..at + text.len()].to_owned();
                self.read += seen.len();
                return seen;
            }
            assert!(Instant::now() < deadline, "{text:?} is not on the screen: {new}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Everything on the screen so far.
    pub(crate) fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap().clone();
        let mut text = String::new();
        let mut rest = shown.as_slice();
        while let Err(error) = std::str::from_utf8(rest) {
            text.push_str(std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap());
            // A character may be there in part; what is none was typed so.
            let Some(bad) = error.error_len() else { return text };
            text.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[error.valid_up_to() + bad..];
        }
        text + std::str::from_utf8(rest).unwrap()
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) {
        self.press(&format!("{line}\n"));
    }

    /// Presses keys; `\x03` is Ctrl-C.
    pub(crate) fn press(&mut self, keys: &str) {
        self.press_bytes(keys.as_bytes());
    }

    /// The same as a terminal that is not set to UTF-8.
    pub(crate) fn press_bytes(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).and_then(|()| self.keys.flush()).unwrap();
    }

    /// Kills the program in it, not the terminal.
    pub(crate) fn kill_program(&self) {
        let terminal = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{terminal}/task/{terminal}/children")).unwrap();
        let program = children.split_whitespace().next().expect("a program runs in it").parse().unwrap();
        kill_process(Pid::from_raw(program).unwrap(), Signal::KILL).unwrap();
    }

    /// Waits for the end; returns the exit code.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Option<i32> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.shown());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
