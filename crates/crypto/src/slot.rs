//! Key slots: a store's two keys, wrapped under a password.
//!
//! Argon2id (RFC 9106, version 0x13) turns a password and the slot's own salt into a 32-byte key.
//! The store's keys are sealed under it, with store and slot as associated data. A hostile slot
//! cannot cause a panic, an overflow, or a use beyond the limits below. At worst it makes one
//! attempt slow.

use std::num::NonZero;
use std::thread;

use argon2::{Algorithm, Argon2, Params, Version};
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use zeroize::Zeroizing;

use crate::keys::{SALT_BYTES, derive};
use crate::seal::KEY_BYTES;
use crate::seal::TAG_BYTES;
use crate::{CryptoError, DomainKey, EncryptionKey, MasterKeys, SealKey};

/// Memory of a new slot, in KiB: 64 MiB, RFC 9106's second recommended option (section 4) and over
/// three times OWASP's least for two passes.
pub const MEMORY_KIB_DEFAULT: u32 = 64 * 1024;

/// Passes of a new slot: RFC 9106's for this memory.
pub const PASSES_DEFAULT: u32 = 3;

/// Lanes of a new slot: RFC 9106's for this memory. They are computed concurrently, on as many
/// processors as there are.
pub const LANES_DEFAULT: u32 = 4;

/// The most memory that a slot may require, in KiB: 4 GiB.
pub const MEMORY_KIB_MAX: u32 = 4 * 1024 * 1024;

/// The most passes that a slot may require.
pub const PASSES_MAX: u32 = 64;

/// The most lanes that a slot may require.
pub const LANES_MAX: u32 = 64;

/// Argon2id's minimum of memory, in KiB for each lane.
const MEMORY_KIB_MIN_PER_LANE: u32 = 8;

/// Length of the wrapped keys, in bytes: two keys and a tag.
pub const WRAPPED_KEYS_BYTES: usize = 2 * KEY_BYTES + TAG_BYTES;

/// The cost of one guess at a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argon2Cost {
    /// Memory in KiB, at least 8 for each lane.
    pub memory_kib: u32,
    /// Passes over the memory.
    pub passes: u32,
    /// Lanes.
    pub lanes: u32,
}

impl Default for Argon2Cost {
    fn default() -> Self {
        Self {
            memory_kib: MEMORY_KIB_DEFAULT,
            passes: PASSES_DEFAULT,
            lanes: LANES_DEFAULT,
        }
    }
}

impl Argon2Cost {
    /// Checks that this program accepts the cost.
    ///
    /// # Errors
    /// [`CryptoError::CostOutOfRange`] names the first parameter that is out of range.
    pub fn check(&self) -> Result<(), CryptoError> {
        let within = |what, value, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(CryptoError::CostOutOfRange {
                    what,
                    value,
                    min,
                    max,
                })
            }
        };
        within("lanes", self.lanes, 1, LANES_MAX)?;
        within("passes", self.passes, 1, PASSES_MAX)?;
        within(
            "memory (KiB)",
            self.memory_kib,
            MEMORY_KIB_MIN_PER_LANE * self.lanes,
            MEMORY_KIB_MAX,
        )
    }
}

/// The derivation of a slot's wrapping key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotDerivation {
    /// From a password, by Argon2id.
    Argon2id {
        /// Fresh for every slot.
        salt: [u8; SALT_BYTES],
        /// The cost of one guess.
        cost: Argon2Cost,
    },
    /// From the salt alone: anybody who reads the store has the keys.
    NoPassword {
        /// Fresh for every slot.
        salt: [u8; SALT_BYTES],
    },
}

/// What a user presents to open a slot. Never printed.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// A password.
    Password(&'a [u8]),
    /// The explicit request to open a store without a password: see
    /// [`CryptoError::OtherCredential`].
    NoPassword,
}

impl std::fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(..)",
            Self::NoPassword => "NoPassword",
        })
    }
}

/// Wraps the keys for a slot. `aad` binds them to their store and slot, and [`unwrap`] needs it
/// again. Takes some 100 ms at the default cost.
///
/// # Errors
/// [`CryptoError::OtherCredential`], `CostOutOfRange`, `OutOfMemory`, `PasswordTooLong`.
pub fn wrap(
    credential: Credential<'_>,
    derivation: &SlotDerivation,
    aad: &[u8],
    keys: &MasterKeys,
) -> Result<[u8; WRAPPED_KEYS_BYTES], CryptoError> {
    let key = wrapping_key(credential, derivation)?;
    let mut buf = Vec::with_capacity(WRAPPED_KEYS_BYTES);
    buf.extend_from_slice(keys.domain.as_bytes());
    buf.extend_from_slice(keys.encryption.as_bytes());
    key.seal(0, aad, &mut buf, 0);
    let mut wrapped = [0; WRAPPED_KEYS_BYTES];
    wrapped.copy_from_slice(&buf);
    Ok(wrapped)
}

/// Unwraps a slot's keys. Takes as long as [`wrap`], whether the password is right or not.
///
/// # Errors
/// [`CryptoError::WrongPassword`], also if the slot was damaged or changed, which looks the same;
/// `OtherCredential`, before any work is done; `CostOutOfRange`, `OutOfMemory`, `PasswordTooLong`.
pub fn unwrap(
    credential: Credential<'_>,
    derivation: &SlotDerivation,
    aad: &[u8],
    wrapped: &[u8],
) -> Result<MasterKeys, CryptoError> {
    let key = wrapping_key(credential, derivation)?;
    let mut buf = Zeroizing::new(wrapped.to_vec());
    let plain = key
        .open(0, aad, &mut buf)
        .map_err(|_| CryptoError::WrongPassword)?;
    let (domain, encryption) = plain
        .split_at_checked(KEY_BYTES)
        .ok_or(CryptoError::WrongPassword)?;
    let key_of = |bytes: &[u8]| <[u8; KEY_BYTES]>::try_from(bytes).map_err(|_| CryptoError::WrongPassword);
    Ok(MasterKeys {
        domain: DomainKey::from_bytes(key_of(domain)?),
        encryption: EncryptionKey::from_bytes(key_of(encryption)?),
    })
}

fn wrapping_key(credential: Credential<'_>, derivation: &SlotDerivation) -> Result<SealKey, CryptoError> {
    match (credential, derivation) {
        (Credential::Password(password), SlotDerivation::Argon2id { salt, cost }) => {
            cost.check()?;
            Ok(SealKey::new(&*stretch(password, salt, cost)?))
        }
        (Credential::NoPassword, SlotDerivation::NoPassword { salt }) => {
            Ok(SealKey::new(&derive(&[0; KEY_BYTES], "no password", salt)))
        }
        _ => Err(CryptoError::OtherCredential),
    }
}

fn stretch(
    password: &[u8],
    salt: &[u8; SALT_BYTES],
    cost: &Argon2Cost,
) -> Result<Zeroizing<[u8; KEY_BYTES]>, CryptoError> {
    let params = Params::new(cost.memory_kib, cost.passes, cost.lanes, Some(KEY_BYTES))
        .expect("the cost was checked against narrower limits");
    let mut out = Zeroizing::new([0; KEY_BYTES]);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let hashed = on_threads(cost.lanes, pool_of, || {
        argon2.hash_password_into(password, salt, &mut *out)
    });
    hashed.map_err(|e| match e {
        argon2::Error::PwdTooLong => CryptoError::PasswordTooLong { len: password.len() },
        _ => CryptoError::OutOfMemory {
            memory_kib: cost.memory_kib,
        },
    })?;
    Ok(out)
}

fn pool_of(threads: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    ThreadPoolBuilder::new().num_threads(threads).build()
}

/// Runs `compute`, which uses so many lanes, on no more threads than lanes and processors. The
/// threads end with it. It runs only on the calling thread if one is enough, or if the system has
/// no more threads. By default, `rayon` would start a thread for every processor, keep them, and
/// panic if it cannot start them.
pub(crate) fn on_threads<T: Send>(
    lanes: u32,
    pool_of: impl FnOnce(usize) -> Result<ThreadPool, ThreadPoolBuildError>,
    compute: impl FnOnce() -> T + Send,
) -> T {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = usize::try_from(lanes).map_or(processors, |lanes| lanes.min(processors));
    if threads > 1
        && let Ok(pool) = pool_of(threads)
    {
        return pool.install(compute);
    }
    match ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build()
    {
        Ok(pool) => pool.install(compute),
        // The thread is already a pool of one from an earlier call, or belongs to a pool of its
        // caller.
        Err(_) => compute(),
    }
}
