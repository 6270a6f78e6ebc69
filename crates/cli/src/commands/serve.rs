//! `onefold serve`

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow};
use cli_support::{Code, Output};
use onefold::OpenOptions;
use serde::Serialize;
use server::{Granted, Home, Listener, Rights, Server, SocketListener};
use transport::{Channel, Closer};

use crate::args::{Global, Serve};
use crate::notify::notify;
use crate::password;

/// How often it looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Listening {
    message_type: &'static str,
    address: String,
}

pub(crate) fn run(global: &Global, args: &Serve, output: Output) -> Result<Code> {
    onefold::return_large_memory();
    env::raise_descriptor_limit();
    let server = Arc::new(open(global, args)?);
    if args.stdio {
        return serve_stdio(&server, args);
    }
    for away in server.away() {
        output.warn(format!("{away}; the server tries again by itself"))?;
    }
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
    let socket = args.socket.as_ref();
    let socket = socket
        .map(|path| SocketListener::start(&server, path))
        .transpose()?;
    if let Some(path) = args.socket.as_ref().map(|path| path.display().to_string()) {
        output.line(format!("listening on {path}"))?;
        output.object(&Listening {
            message_type: "listening",
            address: path,
        })?;
    }
    notify("READY=1");
    while !asked.load(Ordering::Relaxed) {
        thread::park_timeout(LOOK);
    }
    notify("STOPPING=1");
    // They may also where nothing can be printed.
    let told = output.line("ending: running backups and restores may finish");
    server.end(Duration::from_secs(args.patience.into()));
    drop((listeners, socket));
    told?;
    Ok(Code::Success)
}

/// Serves one client by standard input and output. A signal ends the program at once: a backup goes
/// on from its last checkpoint.
fn serve_stdio(server: &Server, args: &Serve) -> Result<Code> {
    let rights = args.rights.as_ref().map(|rights| rights.parse());
    let rights = rights.transpose().map_err(|why: String| anyhow!(why))?;
    let channel = Channel {
        input: Box::new(File::from(io::stdin().as_fd().try_clone_to_owned()?)),
        output: Box::new(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        // The client closes its end.
        closer: Closer::new(|| ()),
    };
    let granted = Granted {
        namespace: args.namespace.clone(),
        rights: rights.unwrap_or(Rights::ALL),
    };
    server.serve_tunnel(channel, granted)?;
    Ok(Code::Success)
}

fn open(global: &Global, args: &Serve) -> Result<Server> {
    let home = Home::open(&args.folder)?;
    let options = OpenOptions::default()
        .index_bytes_max(u64::from(global.index_mib) << 20)
        .index_memory_bytes_max(global.index_memory_mib.map(|mib| (mib as usize) << 20));
    let credential = password::existing(global)?;
    let memory_bytes = u64::from(args.memory_mib) << 20;
    // A client of standard input uses one namespace.
    let open = if args.stdio {
        Server::open_on_demand
    } else {
        Server::open
    };
    Ok(open(home, &credential, &options, memory_bytes)?)
}
