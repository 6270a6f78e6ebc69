//! `onefold volume serve`

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use cli_support::{Code, Output};
use env::{Clock, FileCaching, SystemClock};
use serde::Serialize;
use volume_server::{Exports, Place, Server, ServerSettings, TlsIdentity, TlsSettings};

use crate::args::{ListenPlace, VolumeServe};
use crate::commands::on_pool::tell_of_pool;
use crate::notify::notify;
use crate::volumes::{Caches, Control, IndexFault, ServedExports, open};

/// How often it looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Serialize)]
struct Listening {
    message_type: &'static str,
    address: String,
    uri: String,
    volumes: usize,
}

pub(super) fn run(args: &VolumeServe, output: Output) -> Result<Code> {
    onefold::return_large_memory();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let tls = tls(args, &clock)?;
    let asked = crate::commands::cancel_flag()?;
    let caching = if args.direct {
        FileCaching::Direct
    } else {
        FileCaching::PageCache
    };
    let caches = Caches {
        map_bytes: args.map_cache,
        index_bytes: args.index_cache,
    };
    let opened = open(&args.pool, caching, caches, IndexFault::Fails)?;
    tell_of_pool(&opened, output)?;
    let pool = Arc::clone(&opened.pool);
    if !pool.stats()?.index_matches {
        output.warn(
            "warning: the duplicates index does not match the volumes; they are served, but nothing is shared or freed \
             until `onefold volume recount` was run",
        )?;
    }
    let exports = Arc::new(ServedExports::new(Arc::clone(&pool)));
    let background = pool.start().context("starting the work in the background")?;
    let control = Control::start(&opened.index, Arc::clone(&pool), Arc::clone(&exports))
        .with_context(|| format!("{}: the control socket", opened.index.display()))?;
    let served = Arc::clone(&exports) as Arc<dyn Exports>;
    let servers = start(args, tls.as_ref(), &served, &clock)?;
    let volumes = exports.list().len();
    for (shown, uri) in addresses(args, tls.is_some(), &servers) {
        output.line(format!("listening on {shown}"))?;
        output.object(&Listening {
            message_type: "listening",
            address: shown,
            uri,
            volumes,
        })?;
    }
    warn_of_everybody(args, &servers, output)?;
    notify("READY=1");
    while !asked.load(Ordering::Relaxed) {
        thread::park_timeout(LOOK);
    }
    notify("STOPPING=1");
    // The server ends in order also where nothing can be printed.
    let mut told = output.line("ending: requests that have arrived are answered");
    let patience = Duration::from_secs(args.patience.into());
    for server in servers {
        if !server.stop(patience) {
            let cut = "warning: a client did not receive its answers, and was cut";
            told = told.and_then(|()| output.warn(cut));
        }
    }
    // A request of the control socket may wait for the work in the background.
    background.tell_to_stop();
    drop(control);
    background.stop();
    pool.close()?;
    told?;
    Ok(Code::Success)
}

/// Reads the certificates.
fn tls(args: &VolumeServe, clock: &Arc<dyn Clock>) -> Result<Option<TlsSettings>> {
    let (Some(certificate), Some(key)) = (&args.tls_certificate, &args.tls_key) else {
        return Ok(None);
    };
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    let clients = args.tls_clients.as_deref().map(read).transpose()?;
    let identity = TlsIdentity::from_pem(&read(certificate)?, &read(key)?, clients.as_deref(), clock)?;
    Ok(Some(TlsSettings {
        identity,
        is_required: !args.tls_optional,
    }))
}

/// A server for the Unix sockets, which need no TLS, and one for the network.
fn start(
    args: &VolumeServe,
    tls: Option<&TlsSettings>,
    exports: &Arc<dyn Exports>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Server>> {
    let places = args.listen.iter().map(|place| place.place(args.socket_mode));
    let (unix, network): (Vec<Place>, Vec<Place>) =
        places.partition(|place| matches!(place, Place::Unix { .. }));
    let mut servers = Vec::new();
    for (places, tls) in [(unix, None), (network, tls)] {
        if !places.is_empty() {
            let settings = ServerSettings {
                tls: tls.cloned(),
                ..ServerSettings::at(places)
            };
            servers.push(Server::start(settings, Arc::clone(exports), Arc::clone(clock))?);
        }
    }
    Ok(servers)
}

/// Where clients connect: for people, and as a URI without a volume's name.
fn addresses(args: &VolumeServe, has_tls: bool, servers: &[Server]) -> Vec<(String, String)> {
    let unix = args.listen.iter().filter_map(|place| match place {
        ListenPlace::Unix(path) => {
            let path = path.display();
            Some((format!("unix:{path}"), format!("nbd+unix:///?socket={path}")))
        }
        ListenPlace::Tcp(_) => None,
    });
    let scheme = if has_tls { "nbds" } else { "nbd" };
    let network = servers.iter().flat_map(Server::addresses);
    let network = network.map(|address| (format!("tcp:{address}"), format!("{scheme}://{address}/")));
    unix.chain(network).collect()
}

/// Warns if other machines reach the volumes and need no proof of who they are.
fn warn_of_everybody(args: &VolumeServe, servers: &[Server], output: Output) -> Result<()> {
    let mut open = servers.iter().flat_map(Server::addresses);
    let open = open.find(|address| !address.ip().is_loopback());
    if let Some(address) = open.filter(|_| args.tls_clients.is_none()) {
        output.warn(format!(
            "warning: whoever reaches {address} can read and write all volumes; to serve only clients with a \
             certificate, use --tls-clients"
        ))?;
    }
    Ok(())
}
