//! Channels that need no TLS and no token: the system has authenticated their ends.
//!
//! - `ssh://[user@]host[:port]/FOLDER/NAMESPACE` runs `onefold serve /FOLDER --stdio` on the host.
//! - `unix:///SOCKET/NAMESPACE` is the socket of a server on this machine.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use crate::address::is_namespace;
use crate::channel::{Channel, Closer};
use crate::error::TransportError;

const SSH: &str = "ssh://";
const UNIX: &str = "unix://";

/// A namespace of a server behind a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// The other end.
    pub end: TunnelEnd,
    /// The namespace.
    pub namespace: String,
}

/// The other end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TunnelEnd {
    /// A server's folder on another host.
    Ssh {
        /// The host, perhaps with a user in front of it: `user@host`.
        host: String,
        /// The port, if it is not the one that `ssh` takes by itself.
        port: Option<u16>,
        /// The server's folder.
        folder: String,
    },
    /// The socket of a server on this machine.
    Socket(PathBuf),
}

impl Tunnel {
    /// Whether the text is meant as a tunnel.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SSH) || text.starts_with(UNIX)
    }

    /// Opens the tunnel. `ssh` is the program that opens one to a host.
    ///
    /// # Errors
    /// `Unreachable`
    pub fn open(&self, ssh: &OsString) -> Result<Channel, TransportError> {
        let unreachable = |source| TransportError::Unreachable {
            place: self.to_string(),
            source,
        };
        match &self.end {
            TunnelEnd::Socket(path) => {
                let socket = UnixStream::connect(path).map_err(unreachable)?;
                Ok(socket.into())
            }
            TunnelEnd::Ssh { host, port, folder } => {
                let mut command = Command::new(ssh);
                if let Some(port) = port {
                    command.arg("-p").arg(port.to_string());
                }
                let folder = types::shell_word(folder.as_bytes());
                let namespace = &self.namespace;
                // A number of version 6 has brackets in the address alone.
                let plain = host.replace(['[', ']'], "");
                command.arg("--").arg(plain);
                command.arg(format!("onefold serve {folder} --stdio --namespace {namespace}"));
                of_process(command).map_err(unreachable)
            }
        }
    }
}

/// Starts a program, and speaks with it by its standard input and output.
fn of_process(mut command: Command) -> std::io::Result<Channel> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let none = || std::io::Error::other("the program has no standard input and output");
    let (input, output) = (
        child.stdout.take().ok_or_else(none)?,
        child.stdin.take().ok_or_else(none)?,
    );
    let child = Mutex::new(child);
    Ok(Channel {
        input: Box::new(input),
        output: Box::new(output),
        closer: Closer::new(move || {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have ended.
            drop(child.kill());
            drop(child.wait());
        }),
    })
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            TunnelEnd::Ssh { host, port, folder } => {
                write!(f, "{SSH}{host}")?;
                if let Some(port) = port {
                    write!(f, ":{port}")?;
                }
                write!(f, "{folder}/{}", self.namespace)
            }
            TunnelEnd::Socket(path) => write!(f, "{UNIX}{}/{}", path.display(), self.namespace),
        }
    }
}

impl FromStr for Tunnel {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, TransportError> {
        let fault = |why| TransportError::Address {
            text: text.to_owned(),
            why,
        };
        let (front, namespace) = text.rsplit_once('/').unwrap_or_default();
        if !is_namespace(namespace) {
            return Err(fault(
                "its last part is no namespace: 1 to 64 small letters, digits, '-', '_' and '.', not first a '.'",
            ));
        }
        let end = if let Some(path) = front.strip_prefix(UNIX) {
            if !path.starts_with('/') {
                return Err(fault("the socket is missing: unix:///PATH/NAMESPACE"));
            }
            TunnelEnd::Socket(PathBuf::from(path))
        } else {
            let missing = || fault("the server's folder is missing: ssh://HOST/FOLDER/NAMESPACE");
            let rest = front.strip_prefix(SSH).ok_or_else(missing)?;
            let at = rest.find('/').ok_or_else(missing)?;
            let (place, folder) = rest.split_at(at);
            let (host, port) = match place.rsplit_once(':').filter(|_| !place.ends_with(']')) {
                None => (place, None),
                Some((host, port)) => {
                    let port = port.parse().ok();
                    (
                        host,
                        Some(port.ok_or_else(|| fault("the port is no number from 0 to 65535"))?),
                    )
                }
            };
            if host.is_empty() || host.starts_with('-') {
                return Err(fault("the host is missing"));
            }
            let in_brackets = host.rsplit('@').next().unwrap_or_default();
            if in_brackets.starts_with('[') != in_brackets.ends_with(']') {
                return Err(fault("one of the brackets around the host's number is missing"));
            }
            TunnelEnd::Ssh {
                host: host.to_owned(),
                port,
                folder: folder.to_owned(),
            }
        };
        Ok(Self {
            end,
            namespace: namespace.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_are_read_and_shown() {
        for text in [
            "ssh://host/srv/onefold/web",
            "ssh://me@host:22/srv/one fold/web",
            "ssh://[::1]/srv/web",
            "unix:///run/onefold.sock/web",
        ] {
            let tunnel: Tunnel = text.parse().unwrap();
            assert_eq!(tunnel.namespace, "web");
            assert_eq!(tunnel.to_string(), text);
        }
        for text in [
            "ssh://host/web",
            "ssh://[::1/srv/web",
            "ssh:///srv/web",
            "ssh://-oProxyCommand=x/srv/web",
            "ssh://host:x/srv/web",
            "ssh://host/srv/Web",
            "unix://run/web",
            "unix:///run/",
        ] {
            assert!(text.parse::<Tunnel>().is_err(), "{text}");
        }
    }
}
