//! Clients of object stores, and the first request of each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::{BackoffConfig, ClientOptions, Error, ObjectStore, RetryConfig};

use super::credentials::Credentials;
use super::failure::at_opening;
use super::limited::{LimitedConnector, Paces};
use super::location::Service;
use super::pace::Pace;
use super::{
    AZURE_PUT_ID, ObjectStoreLocation, ObjectStoreOptions, ObjectStoreStorage, azure, credentials, google,
    uploads,
};
use crate::{Clock, StorageError, SystemClock};

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
    answer: Duration::from_mins(10),
    repeats_max: 40,
    repeats: Duration::from_mins(3),
    pause_max: Duration::from_secs(15),
};

/// At most about so many bytes are on their way at once: large containers of several writers.
const ON_THE_WAY_BYTES: u64 = 512 << 20;

impl Patience {
    /// With a limited rate, an answer may take as long as all that is on its way.
    fn at(self, options: &ObjectStoreOptions) -> Self {
        let slowest = options
            .upload_bytes_per_second
            .into_iter()
            .chain(options.download_bytes_per_second)
            .min();
        let needed = slowest.map_or(0, |rate| ON_THE_WAY_BYTES / rate.get());
        Self {
            answer: self.answer.max(Duration::from_secs(needed)),
            ..self
        }
    }
}

/// What the three services' clients have in common.
trait Client: ObjectStore + PaginatedListStore {}

impl<C: ObjectStore + PaginatedListStore> Client for C {}

impl ObjectStoreStorage {
    /// The storage at this location. The credentials come from the environment, as the tools of the
    /// service take them. Sends a request, to tell early what would fail later.
    ///
    /// # Errors
    /// `NoBucket`; `Unusable` if the credentials are missing or wrong, or nothing answers.
    pub fn open(location: &ObjectStoreLocation, options: &ObjectStoreOptions) -> Result<Self, StorageError> {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self::open_with(location, options, &set)
    }

    /// Like [`Self::open`], with these variables in place of those of the environment.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(
        location: &ObjectStoreLocation,
        options: &ObjectStoreOptions,
        set: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, StorageError> {
        let place = location.to_string();
        let unusable = |why| StorageError::Unusable {
            place: place.clone(),
            why,
        };
        let access = Access::find(location, set).map_err(unusable)?;
        // Another part of the program may have installed one.
        drop(rustls::crypto::ring::default_provider().install_default());
        let failed = |error: Error| at_opening(&place, location.host(), &error);
        let paces = paces(options);
        let long = client(location, &access, &paces, LONG.at(options)).map_err(failed)?;
        // The first request is small.
        let brief = client(location, &access, &Paces::default(), BRIEF).map_err(failed)?;
        let mut storage = Self::new(long, location.prefix())?;
        storage.place = Place {
            shown: place.clone(),
            host: location.host().to_owned(),
            identity: Some(identity(&place, &access)),
        };
        storage.class = options.storage_class.clone();
        storage.is_limited = paces.is_limited();
        if *location.service() == Service::Azure {
            storage.put_id = AZURE_PUT_ID;
        }
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

fn paces(options: &ObjectStoreOptions) -> Paces {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let pace = |rate| Arc::new(Pace::new(rate, Arc::clone(&clock)));
    Paces {
        upload: options.upload_bytes_per_second.map(pace),
        download: options.download_bytes_per_second.map(pace),
    }
}

/// What an error calls the storage.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) shown: String,
    pub(super) host: String,
    pub(super) identity: Option<String>,
}

/// The location, and what the environment adds to it: an account, an endpoint.
fn identity(place: &str, access: &Access) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |part: &str| {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    };
    add(place);
    match access {
        Access::S3(_) => {}
        Access::Google(settings) => {
            let of_place = settings
                .iter()
                .filter(|(key, _)| *key == GoogleConfigKey::BaseUrl);
            of_place.for_each(|(_, value)| add(value));
        }
        Access::Azure(settings) => {
            let tells = [AzureConfigKey::AccountName, AzureConfigKey::Endpoint];
            let of_place = settings.iter().filter(|(key, _)| tells.contains(key));
            of_place.for_each(|(_, value)| add(value));
        }
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(f)
    }
}

/// What a client authenticates with. It has secrets, so it is never printed.
enum Access {
    S3(Credentials),
    Google(Vec<(GoogleConfigKey, String)>),
    Azure(Vec<(AzureConfigKey, String)>),
}

impl Access {
    fn find(location: &ObjectStoreLocation, set: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        Ok(match location.service() {
            Service::S3 { .. } => Self::S3(credentials::find(set, location.is_aws())?),
            Service::Google => Self::Google(google::find(set)?),
            Service::Azure => Self::Azure(azure::find(set)?),
        })
    }

    /// Whether the environment names an endpoint without TLS.
    fn is_plain(&self) -> bool {
        let is_plain = |value: &String| value.starts_with("http://");
        match self {
            Self::S3(_) => false,
            Self::Google(settings) => settings
                .iter()
                .any(|(key, value)| *key == GoogleConfigKey::BaseUrl && is_plain(value)),
            Self::Azure(settings) => settings
                .iter()
                .any(|(key, value)| *key == AzureConfigKey::Endpoint && is_plain(value)),
        }
    }
}

fn client(
    location: &ObjectStoreLocation,
    access: &Access,
    paces: &Paces,
    patience: Patience,
) -> Result<Arc<dyn Client>, Error> {
    let is_encrypted = location.is_encrypted() && !access.is_plain();
    let options = ClientOptions::new()
        .with_allow_http(!is_encrypted)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(patience.answer)
        .with_timeout_disabled();
    let connector = paces.is_limited().then(|| LimitedConnector {
        paces: paces.clone(),
        connect_timeout: CONNECT_TIMEOUT,
        read_timeout: patience.answer,
    });
    match access {
        Access::S3(credentials) => s3(location, credentials, options, connector, patience),
        Access::Google(settings) => {
            let mut builder = GoogleCloudStorageBuilder::new()
                .with_client_options(options)
                .with_retry(patience.into())
                .with_bucket_name(location.bucket());
            for (key, value) in settings {
                builder = builder.with_config(*key, value);
            }
            if let Some(connector) = connector {
                builder = builder.with_http_connector(connector);
            }
            Ok(Arc::new(builder.build()?))
        }
        Access::Azure(settings) => {
            let mut builder = MicrosoftAzureBuilder::new()
                .with_client_options(options)
                .with_retry(patience.into())
                .with_container_name(location.bucket());
            for (key, value) in settings {
                builder = builder.with_config(*key, value);
            }
            if let Some(connector) = connector {
                builder = builder.with_http_connector(connector);
            }
            Ok(Arc::new(builder.build()?))
        }
    }
}

fn s3(
    location: &ObjectStoreLocation,
    credentials: &Credentials,
    options: ClientOptions,
    connector: Option<LimitedConnector>,
    patience: Patience,
) -> Result<Arc<dyn Client>, Error> {
    let region = credentials.region.as_deref().or(location.region());
    let region = region.unwrap_or(REGION);
    let endpoint = location.endpoint(region);
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
    builder = uploads::protect(builder, location, credentials.checksums);
    for (key, value) in &credentials.settings {
        builder = builder.with_config(*key, value);
    }
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    Ok(Arc::new(builder.build()?))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The same words may lead to another account.
    #[test]
    fn storages_are_told_apart_by_location_and_account() {
        let named = |place: &str, variables: &[(&str, &str)]| {
            let of = |name: &str| {
                let found = variables.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let access = Access::find(&place.parse().unwrap(), &of).unwrap();
            identity(place, &access)
        };
        let ann = ("AZURE_ACCOUNT_NAME", "ann");
        let of_ann = named("azure:box", &[ann, ("AZURE_ACCOUNT_KEY", "a")]);
        assert_eq!(of_ann, named("azure:box", &[ann, ("AZURE_ACCOUNT_KEY", "b")]));
        let keys = [("AZURE_ACCOUNT_NAME", "bob"), ("AZURE_ACCOUNT_KEY", "a")];
        assert_ne!(of_ann, named("azure:box", &keys));
        assert_ne!(of_ann, named("azure:other", &[ann, ("AZURE_ACCOUNT_KEY", "a")]));
    }
}
