//! Clients of object stores that speak S3.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::{BackoffConfig, ClientOptions, Error, RetryConfig};

use super::credentials::{self, Credentials};
use super::failure::at_opening;
use super::{ObjectStoreLocation, ObjectStoreStorage};
use crate::StorageError;

/// The region that a store gets which has none.
const REGION: &str = "us-east-1";
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits and repeats.
#[derive(Clone, Copy)]
struct Patience {
    /// How long an answer may take, from the beginning of its request.
    answer: Duration,
    repeats_max: usize,
    /// Nothing is repeated after this time.
    repeats: Duration,
    pause_max: Duration,
}

/// At the beginning: a slip of the user is told soon.
const BRIEF: Patience = Patience {
    answer: Duration::from_secs(15),
    repeats_max: 3,
    repeats: Duration::from_secs(15),
    pause_max: Duration::from_secs(2),
};
/// At work: the object store or the network has an outage. A slow line sends a container.
const LONG: Patience = Patience {
    answer: Duration::from_mins(5),
    repeats_max: 40,
    repeats: Duration::from_mins(3),
    pause_max: Duration::from_secs(15),
};

impl ObjectStoreStorage {
    /// The storage at this location. The credentials come from the environment, as the tools of AWS
    /// take them. Sends a request, to tell early what would fail later.
    ///
    /// # Errors
    /// `NoBucket`; `Unusable` if the credentials are missing or wrong, or nothing answers.
    pub fn open(location: &ObjectStoreLocation) -> Result<Self, StorageError> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::open_with(location, &set)
    }

    /// Like [`Self::open`], with these variables in place of those of the environment.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(
        location: &ObjectStoreLocation,
        set: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, StorageError> {
        let place = location.to_string();
        let unusable = |why| StorageError::Unusable {
            place: place.clone(),
            why,
        };
        let credentials = credentials::find(set, location.is_aws()).map_err(unusable)?;
        // Another part of the program may have installed one.
        drop(rustls::crypto::ring::default_provider().install_default());
        let failed = |error: Error| at_opening(&place, location.host(), &error);
        let long = client(location, &credentials, LONG).map_err(failed)?;
        let brief = client(location, &credentials, BRIEF).map_err(failed)?;
        let mut storage = Self::new(Arc::new(long), location.prefix())?;
        storage.place = Place {
            shown: place.clone(),
            host: location.host().to_owned(),
        };
        let prefix = (!storage.prefix.is_empty()).then_some(storage.prefix.as_str());
        let options = PaginatedListOptions {
            max_keys: Some(1),
            ..PaginatedListOptions::default()
        };
        storage
            .runtime
            .block_on(brief.list_paginated(prefix, options))
            .map_err(failed)?;
        Ok(storage)
    }
}

/// What an error calls the storage.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) shown: String,
    pub(super) host: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(f)
    }
}

fn client(
    location: &ObjectStoreLocation,
    credentials: &Credentials,
    patience: Patience,
) -> Result<AmazonS3, Error> {
    let region = credentials.region.as_deref().or(location.region());
    let region = region.unwrap_or(REGION);
    let endpoint = location.endpoint(region);
    let options = ClientOptions::new()
        .with_allow_http(!location.is_encrypted())
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(patience.answer)
        .with_timeout_disabled();
    let mut builder = AmazonS3Builder::new()
        .with_client_options(options)
        .with_retry(patience.into())
        .with_endpoint(endpoint.url)
        .with_virtual_hosted_style_request(endpoint.has_bucket)
        .with_bucket_name(location.bucket())
        .with_region(region)
        .with_conditional_put(S3ConditionalPut::ETagMatch)
        // Several stores lack the request that deletes many objects.
        .with_disable_bulk_delete(true);
    for (key, value) in &credentials.settings {
        builder = builder.with_config(*key, value);
    }
    builder.build()
}

impl From<Patience> for RetryConfig {
    fn from(patience: Patience) -> Self {
        Self {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100),
                max_backoff: patience.pause_max,
                base: 2.,
            },
            max_retries: patience.repeats_max,
            retry_timeout: patience.repeats,
        }
    }
}
