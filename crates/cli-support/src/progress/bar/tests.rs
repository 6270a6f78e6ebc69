//! Lines of the terminal.

use std::io;
use std::sync::{Arc, Mutex};

use indicatif::TermLike;
use onefold::{SessionId, UnixNanos};

use super::*;

/// A terminal that keeps the last text of its line.
#[derive(Debug, Clone, Default)]
struct Line(Arc<Mutex<String>>);

impl Line {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap().push_str(text);
        Ok(())
    }
}

impl TermLike for Line {
    fn width(&self) -> u16 {
        120
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write(text)
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.write(text)
    }
    fn clear_line(&self) -> io::Result<()> {
        self.0.lock().unwrap().clear();
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The text of the line after the last of these statuses.
fn shown(statuses: &[Status]) -> String {
    let line = Line::default();
    let mut bar = Bar::new("prune", ProgressDrawTarget::term_like(Box::new(line.clone())));
    for status in statuses {
        bar.show(status);
    }
    line.text()
}

fn counted(unit: WorkUnit, done: u64, total: u64) -> Status {
    Status {
        unit,
        done,
        total,
        ..Status::default()
    }
}

#[test]
fn nodes_and_containers_are_no_bytes() {
    let nodes = shown(&[counted(WorkUnit::Nodes, 12_345, 0)]);
    assert!(
        nodes.contains("12,345 nodes, ") && nodes.contains(" nodes/s"),
        "{nodes}"
    );
    let both = shown(&[
        counted(WorkUnit::Nodes, 12_345, 0),
        counted(WorkUnit::Containers, 3, 12),
    ]);
    assert!(
        both.contains(" 25% [") && both.contains("3 of 12 containers, ") && both.contains(" containers/s, "),
        "{both}"
    );
    assert!(both.contains(" left"), "{both}");
    for text in [nodes, both] {
        assert!(!text.contains('B') && !text.contains("files"), "{text}");
    }
}

#[test]
fn bytes_are_bytes() {
    let text = shown(&[Status {
        files_done: 7,
        errors: 2,
        current: b"/a/b".to_vec(),
        ..counted(WorkUnit::Bytes, 3 << 20, 12 << 20)
    }]);
    assert!(text.contains("3.00 MiB of 12.00 MiB, "), "{text}");
    assert!(
        text.contains("B/s") && text.contains(", 7 files, 2 errors  /a/b"),
        "{text}"
    );
}

#[test]
fn the_bar_names_the_session_that_it_waits_for() {
    let minutes = |n: i64| UnixNanos::new(n * 60_000_000_000);
    let backup = Waiting {
        session: SessionId::new(12).unwrap(),
        role: WaitingRole::Backup,
        host: Some(b"web".to_vec()),
        process: 4711,
        is_here: false,
        since: minutes(10),
        until: minutes(40),
    };
    let reader = Waiting {
        role: WaitingRole::Reader,
        host: None,
        is_here: true,
        since: minutes(11),
        until: minutes(41),
        ..backup.clone()
    };
    let text = |waiting: &[Waiting]| {
        shown(&[
            counted(WorkUnit::Nodes, 5, 0),
            Status {
                waiting: waiting.to_vec(),
                ..counted(WorkUnit::Nodes, 5, 0)
            },
        ])
    };
    let [since, until, later] = [10, 40, 41].map(|n| local_clock(minutes(n).get()));
    let one = text(std::slice::from_ref(&backup));
    let expected =
        format!("waits for backup 12 (of host web, process 4711) since {since}, until {until} at the latest");
    assert!(one.contains(&expected), "{one}");
    assert!(!one.contains("nodes"), "{one}");
    let three = text(&[reader.clone(), reader, backup]);
    let expected = format!(
        "waits for reader 12 (on this host, process 4711) and 2 others since {since}, until {later} at the latest"
    );
    assert!(three.contains(&expected), "{three}");
    let on = shown(&[Status {
        waiting: Vec::new(),
        ..counted(WorkUnit::Containers, 1, 2)
    }]);
    assert!(!on.contains("waits"), "{on}");
}
