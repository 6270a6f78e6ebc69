//! Addresses of servers, and invitations.
//!
//! `onefold://host[:port]/namespace` names a namespace of a server. An invitation is such an
//! address with `#PIN.CODE` at its end.

use std::fmt;
use std::str::FromStr;

use crate::authority::Pin;
use crate::error::TransportError;

/// The port of a server that names none.
pub const PORT: u16 = 8440;
/// What an address begins with.
const SCHEME: &str = "onefold://";

/// A namespace of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The host's name or number, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The namespace.
    pub namespace: String,
}

/// An invitation to a namespace, for one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invitation {
    /// Where to join.
    pub address: Address,
    /// The key of the server's authority.
    pub pin: Pin,
    /// The one-time code.
    pub code: String,
}

impl Address {
    /// Whether the text is meant as an address of a server.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Host and port.
    #[must_use]
    pub fn place(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.place(), self.namespace)
    }
}

/// Whether a name can be a namespace: small letters, digits, `-`, `_` and `.`, at most 64 of them.
#[must_use]
pub fn is_namespace(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    (1..=64).contains(&name.len()) && name.chars().all(is_letter) && !name.starts_with('.')
}

impl FromStr for Address {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, TransportError> {
        let fault = |why| TransportError::Address {
            text: text.to_owned(),
            why,
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| fault("it does not begin with onefold://"))?;
        let (place, namespace) = rest
            .split_once('/')
            .ok_or_else(|| fault("the namespace is missing: onefold://HOST:PORT/NAMESPACE"))?;
        if !is_namespace(namespace) {
            return Err(fault(
                "a namespace has 1 to 64 small letters, digits, '-', '_' and '.', and does not begin with '.'",
            ));
        }
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest
                    .split_once(']')
                    .ok_or_else(|| fault("the ']' after the host's number is missing"))?;
                (host, after.strip_prefix(':').or(after.is_empty().then_some("")))
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, Some("")),
            },
        };
        let port = match port {
            Some("") if !place.ends_with(':') => Some(PORT),
            Some(port) => port.parse().ok(),
            None => None,
        };
        if host.is_empty() {
            return Err(fault("the host is missing"));
        }
        Ok(Self {
            host: host.to_owned(),
            port: port.ok_or_else(|| fault("the port is no number from 0 to 65535"))?,
            namespace: namespace.to_owned(),
        })
    }
}

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}.{}", self.address, self.pin, self.code)
    }
}

impl FromStr for Invitation {
    type Err = TransportError;

    fn from_str(text: &str) -> Result<Self, TransportError> {
        let fault = |why| TransportError::Address {
            // The code is a secret.
            text: text.split('#').next().unwrap_or_default().to_owned(),
            why,
        };
        let (address, secret) = text.split_once('#').ok_or_else(|| {
            fault("an invitation has '#' and a code at its end; a shell needs quotes around it")
        })?;
        let (pin, code) = secret
            .split_once('.')
            .ok_or_else(|| fault("the code after '#' is not whole"))?;
        if code.is_empty() {
            return Err(fault("the code after '#' is not whole"));
        }
        Ok(Self {
            address: address.parse()?,
            pin: pin
                .parse()
                .map_err(|()| fault("the code after '#' is not whole"))?,
            code: code.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, host, port, shown) in [
            ("onefold://nas/web", "nas", PORT, "onefold://nas:8440/web"),
            ("onefold://nas:9/web", "nas", 9, "onefold://nas:9/web"),
            ("onefold://[::1]/w", "::1", PORT, "onefold://[::1]:8440/w"),
            ("onefold://[::1]:7/w", "::1", 7, "onefold://[::1]:7/w"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(address.to_string(), shown);
        }
        for text in [
            "nas/web",
            "onefold://nas",
            "onefold://nas/",
            "onefold:///web",
            "onefold://nas:/web",
            "onefold://nas:x/web",
            "onefold://nas:70000/web",
            "onefold://[::1/web",
            "onefold://[::1]x/web",
            "onefold://nas/a/b",
            "onefold://nas/../b",
            "onefold://nas/.b",
            "onefold://nas/Web",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn invitations_are_read_and_shown_and_errors_hide_the_code() {
        let pin = "0f".repeat(32);
        let text = format!("onefold://nas:8440/web#{pin}.secret");
        let invitation: Invitation = text.parse().unwrap();
        assert_eq!(invitation.to_string(), text);
        for text in [
            "onefold://nas/web".to_owned(),
            format!("onefold://nas/web#{pin}"),
            format!("onefold://nas/web#{pin}."),
            format!("onefold://nas/web#{}.secret", &pin[1..]),
        ] {
            let error = text.parse::<Invitation>().unwrap_err().to_string();
            assert!(!error.contains(&pin[1..]) && !error.contains("secret"), "{error}");
        }
    }
}
