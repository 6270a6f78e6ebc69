//! How often the server records refusals. Any machine that reaches the server can cause refusals.
//!
//! Each record is an object of the server's folder. So the server makes one record a second for
//! each address, or network of IPv6, and keeps the newest records alone. The next record has the
//! number of refusals in between. Many threads may use it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// One record of an address in this time.
const EVERY: Duration = Duration::from_secs(1);
/// So many addresses are told apart. All others count as one.
const ADDRESSES_MAX: usize = 1024;
/// After so many records the server deletes old ones.
const TIDIED_AFTER: u64 = 64;
/// The address of all others.
const OTHERS: &str = "other addresses";

/// The refusals of all addresses.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    recent: Mutex<BTreeMap<String, Recent>>,
    recorded: AtomicU64,
}

#[derive(Debug)]
struct Recent {
    /// When the last one was recorded, by the monotonic clock.
    recorded_at: Duration,
    /// How many there were since.
    since: u64,
}

/// A refusal to record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Where the client is, or [`OTHERS`].
    pub(crate) from: String,
    /// So many of this address before it were not recorded.
    pub(crate) unrecorded: u64,
}

impl Refusals {
    /// Counts a refusal of a client at this address. Returns what to record, if its turn has come.
    pub(crate) fn count(&self, from: &str, now: Duration) -> Option<Recorded> {
        let mut all = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let network: &str = &neighbours(from);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(network) {
            forget(&mut all, now);
        }
        let is_known = all.len() < ADDRESSES_MAX || all.contains_key(network);
        let (network, from) = if is_known {
            (network, from)
        } else {
            (OTHERS, OTHERS)
        };
        let unrecorded = match all.get_mut(network) {
            Some(recent) if now < recent.recorded_at.saturating_add(EVERY) => {
                recent.since = recent.since.saturating_add(1);
                return None;
            }
            Some(recent) => recent.since,
            None => 0,
        };
        let recent = Recent {
            recorded_at: now,
            since: 0,
        };
        all.insert(network.to_owned(), recent);
        Some(Recorded {
            from: from.to_owned(),
            unrecorded,
        })
    }

    /// Counts a record. Returns whether old ones are to be deleted.
    pub(crate) fn is_untidy(&self) -> bool {
        self.recorded
            .fetch_add(1, Ordering::Relaxed)
            .is_multiple_of(TIDIED_AFTER)
    }
}

/// Whose connections and refusals count with those of this address. A machine has all addresses of
/// a network of IPv6, which are those with the same first 64 bits.
pub(crate) fn neighbours(from: &str) -> String {
    match from.parse() {
        Ok(IpAddr::V6(address)) => address.to_ipv4_mapped().map_or_else(
            || Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).to_string(),
            |mapped| mapped.to_string(),
        ),
        _ => from.to_owned(),
    }
}

/// Forgets addresses whose turn has come again. What they have not recorded counts for the others.
fn forget(all: &mut BTreeMap<String, Recent>, now: Duration) {
    let mut unrecorded = 0_u64;
    all.retain(|from, recent| {
        let is_kept = from == OTHERS || now < recent.recorded_at.saturating_add(EVERY);
        if !is_kept {
            unrecorded = unrecorded.saturating_add(recent.since);
        }
        is_kept
    });
    if unrecorded > 0 {
        let others = all.entry(OTHERS.to_owned()).or_insert(Recent {
            recorded_at: now,
            since: 0,
        });
        others.since = others.since.saturating_add(unrecorded);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(from: &str, unrecorded: u64) -> Option<Recorded> {
        let from = from.to_owned();
        Some(Recorded { from, unrecorded })
    }

    #[test]
    fn one_a_second_of_each_address_is_recorded_and_the_next_tells_of_the_others() {
        let refusals = Refusals::default();
        let at = Duration::from_millis;
        assert_eq!(refusals.count("a", at(0)), recorded("a", 0));
        for millis in 1..1000 {
            assert_eq!(refusals.count("a", at(millis)), None);
        }
        assert_eq!(refusals.count("b", at(500)), recorded("b", 0));
        assert_eq!(refusals.count("a", at(1000)), recorded("a", 999));
        assert_eq!(refusals.count("a", at(1001)), None);
        assert_eq!(refusals.count("a", at(9000)), recorded("a", 1));
        // A machine has all addresses of its network.
        assert_eq!(
            refusals.count("2001:db8::1", at(9000)),
            recorded("2001:db8::1", 0)
        );
        assert_eq!(refusals.count("2001:db8::2", at(9001)), None);
    }

    #[test]
    fn a_network_counts_as_one_address() {
        assert_eq!(neighbours("2001:db8:1:2:a::1"), "2001:db8:1:2::");
        assert_eq!(neighbours("2001:db8:1:2:b:9::"), "2001:db8:1:2::");
        assert_ne!(neighbours("2001:db8:1:3::1"), "2001:db8:1:2::");
        assert_eq!(neighbours("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(neighbours("192.0.2.8"), "192.0.2.8");
        assert_eq!(neighbours("this machine"), "this machine");
    }

    #[test]
    fn many_addresses_take_no_more_memory_and_no_count_is_lost() {
        let refusals = Refusals::default();
        let (mut records, mut told) = (0, 0);
        for number in 0..3 * ADDRESSES_MAX as u64 {
            for _ in 0..2 {
                let now = Duration::from_millis(number / 100);
                if let Some(one) = refusals.count(&number.to_string(), now) {
                    (records, told) = (records + 1, told + one.unrecorded);
                }
            }
        }
        assert_eq!(records, ADDRESSES_MAX as u64 + 1);
        let later = Duration::from_secs(10);
        for number in 0..2 * ADDRESSES_MAX as u64 {
            if let Some(one) = refusals.count(&format!("later {number}"), later) {
                (records, told) = (records + 1, told + one.unrecorded);
            }
        }
        let all = refusals.recent.lock().unwrap();
        assert!(all.len() <= ADDRESSES_MAX + 1);
        let waiting: u64 = all.values().map(|recent| recent.since).sum();
        assert_eq!(records + told + waiting, 8 * ADDRESSES_MAX as u64);
    }
}
