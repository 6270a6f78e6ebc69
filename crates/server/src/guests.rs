//! How many connections a server accepts at once.
//!
//! Anybody who reaches the server can connect. Each connection has a descriptor, and a process may
//! have only so many of them. The stores need some for their files. So the server counts the
//! connections of all its network sockets together, and refuses those that would leave the stores
//! too few. For any number of threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::TARGET;
use crate::refusals::neighbours;

/// More connections at once are refused. Half as many are accepted from one address, or from one
/// network of IPv6.
const CONNECTIONS_MAX: usize = 1024;
/// The stores, and the server itself, have so many descriptors for themselves, or half of all if
/// there are fewer than twice as many.
const DESCRIPTORS_RESERVED: u64 = 512;

/// The open connections, by address.
#[derive(Debug)]
pub(crate) struct Guests {
    /// The descriptors that this process may have.
    descriptors: Option<u64>,
    connections_max: usize,
    /// Each open connection holds one of its address.
    open: Mutex<BTreeMap<String, Arc<()>>>,
}

/// The place of an open connection. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Guest {
    _of_address: Arc<()>,
}

impl Guests {
    /// None yet, in a process that may have so many descriptors. `None`: any number.
    pub(crate) fn new(descriptors: Option<u64>) -> Self {
        let max = CONNECTIONS_MAX as u64;
        let free = |all: u64| all - DESCRIPTORS_RESERVED.min(all.div_ceil(2));
        let connections_max = descriptors.map_or(max, |all| free(all).min(max));
        Self {
            descriptors,
            connections_max: usize::try_from(connections_max).unwrap_or(CONNECTIONS_MAX),
            open: Mutex::default(),
        }
    }

    /// Says so in the log if this process may have too few descriptors for all connections.
    pub(crate) fn warn_of_few_descriptors(&self) {
        if let Some(descriptors) = self
            .descriptors
            .filter(|_| self.connections_max < CONNECTIONS_MAX)
        {
            let connections = self.connections_max;
            tracing::warn!(
                target: TARGET,
                descriptors,
                connections,
                "the system allows few open files: raise the limit (`ulimit -n`, LimitNOFILE=) for more connections"
            );
        }
    }

    /// A place for a client from this address. `None`: there are too many.
    pub(crate) fn admit(&self, from: &str) -> Option<Guest> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, of_address| Arc::strong_count(of_address) > 1);
        let all: usize = open.values().map(|one| Arc::strong_count(one) - 1).sum();
        let of_address = open.entry(neighbours(from)).or_default();
        let is_full =
            all >= self.connections_max || Arc::strong_count(of_address) > self.connections_max.div_ceil(2);
        (!is_full).then(|| Guest {
            _of_address: Arc::clone(of_address),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stores_have_descriptors_of_their_own() {
        let accepted = |descriptors| Guests::new(descriptors).connections_max;
        assert_eq!(accepted(None), 1024);
        assert_eq!(accepted(Some(u64::MAX)), 1024);
        assert_eq!(accepted(Some(65_536)), 1024);
        assert_eq!(accepted(Some(1500)), 988);
        assert_eq!(accepted(Some(1024)), 512);
        assert_eq!(accepted(Some(256)), 128);
        assert_eq!(accepted(Some(3)), 1);
    }

    #[test]
    fn one_address_has_half_of_the_places_and_an_end_frees_one() {
        let guests = Guests::new(Some(8));
        let mut one: Vec<Guest> = (0..2).filter_map(|_| guests.admit("192.0.2.1")).collect();
        assert_eq!(one.len(), 2);
        assert!(guests.admit("192.0.2.1").is_none());
        let other: Vec<Guest> = (0..2).filter_map(|_| guests.admit("192.0.2.2")).collect();
        assert_eq!(other.len(), 2);
        assert!(guests.admit("192.0.2.3").is_none(), "four in all");
        one.pop();
        assert!(guests.admit("192.0.2.3").is_some());
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let guests = Guests::new(Some(8));
        let _open: Vec<_> = (1..3)
            .map(|last| guests.admit(&format!("2001:db8::{last}")))
            .collect();
        assert!(guests.admit("2001:db8::3").is_none());
        assert!(guests.admit("2001:db8:0:1::3").is_some());
    }
}
