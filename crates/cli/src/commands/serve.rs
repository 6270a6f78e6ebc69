//! `onefold serve`

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use cli_support::{Code, Output};
use onefold::OpenOptions;
use serde::Serialize;
use server::{Home, Listener, Server};

use crate::args::{Global, Serve};
use crate::password;

/// How often it looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Listening {
    message_type: &'static str,
    address: String,
}

pub(crate) fn run(global: &Global, args: &Serve, output: Output) -> Result<Code> {
    let server = Arc::new(open(global, &args.folder)?);
    let asked = super::cancel_flag()?;
    let mut listeners = Vec::new();
    for place in &args.listen {
        let listener = Listener::start(&server, place)?;
        let address = listener.address().to_string();
        output.line(format!("listening on {address}"))?;
        output.object(&Listening {
            message_type: "listening",
            address,
        })?;
        listeners.push(listener);
    }
    while !asked.load(Ordering::Relaxed) {
        thread::park_timeout(LOOK);
    }
    output.line("ending: running backups and restores may finish")?;
    server.end(Duration::from_secs(args.patience.into()));
    drop(listeners);
    Ok(Code::Success)
}

fn open(global: &Global, folder: &Path) -> Result<Server> {
    let home = Home::open(folder)?;
    let options = OpenOptions::default()
        .index_bytes_max(u64::from(global.index_mib) << 20)
        .index_memory_bytes_max(global.index_memory_mib.map(|mib| (mib as usize) << 20));
    Ok(Server::open(home, &password::existing(global)?, &options)?)
}
