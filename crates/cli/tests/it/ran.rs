//! How a run of a binary ended, and its output. The tests of both binaries compile this file.

use std::io::{self, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// No single step of a test takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a run ended, and its output.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl Ran {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }

    /// Fails unless the run ended with this code. Shows the output.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.out(),
            self.err()
        );
        self
    }

    /// Fails unless standard error has all of these words.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err().contains(word), "not {word:?} in:\n{}", self.err());
        }
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: output.stdout,
            err: output.stderr,
        }
    }
}

/// Runs a command with these bytes as standard input.
pub(crate) fn feed(mut command: Command, bytes: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    match child.stdin.take().unwrap().write_all(bytes) {
        // The process may end before it has read everything.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        written => written.unwrap(),
    }
    child.wait_with_output().unwrap().into()
}

#[track_caller]
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends a signal.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

/// Standard output as JSON lines, without those of progress: a command that takes longer than a
/// second prints them. Anything else in it fails.
#[track_caller]
pub(crate) fn lines(out: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(out).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let parse = |line: &str| match serde_json::from_str::<serde_json::Value>(line) {
        Ok(value) if value["message_type"].is_string() => value,
        other => panic!("not a JSON line: {line:?}: {other:?}"),
    };
    let is_answer = |value: &serde_json::Value| value["message_type"] != "status";
    text.lines().map(parse).filter(is_answer).collect()
}

/// The last JSON line: the summary.
#[track_caller]
pub(crate) fn last(ran: &Ran) -> serde_json::Value {
    lines(&ran.out).pop().unwrap()
}

/// Bytes that neither compress nor repeat; the same for the same seed.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
