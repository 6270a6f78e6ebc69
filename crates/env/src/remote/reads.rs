//! Reading parts of objects.
//!
//! A request that was not answered has been repeated for minutes. So no other request follows it.

use std::sync::Arc;

use object_store::{Error, GetRange};
use types::{ByteRange, ObjectName};

use super::failure::{is_silence, storage_error};
use super::{ObjectStoreStorage, short};
use crate::StorageError;

impl ObjectStoreStorage {
    pub(super) async fn read_range(
        &self,
        name: &ObjectName,
        range: ByteRange,
    ) -> Result<Vec<u8>, StorageError> {
        let past_end = |len| StorageError::PastEnd {
            name: name.clone(),
            len,
            end: range.end(),
        };
        if range.len == 0 || range.offset.checked_add(range.len).is_none() {
            // Object stores do not answer requests for empty ranges.
            let len = self.head_of(name).await?.size;
            return if range.len == 0 && range.offset <= len {
                Ok(Vec::new())
            } else {
                Err(past_end(len))
            };
        }
        let asked = range.offset..range.end();
        let result = match self.request(name, Some(GetRange::Bounded(asked.clone()))).await {
            Ok(result) if result.range == asked => result,
            // The answer was cut at the object's end.
            Ok(result) => return Err(past_end(result.meta.size)),
            Err(error @ (Error::NotFound { .. } | Error::PermissionDenied { .. })) => {
                return Err(storage_error("read", name.as_str(), error));
            }
            Err(error) if is_silence(&error) => return Err(storage_error("read", name.as_str(), error)),
            // If the range begins at the object's end or beyond, stores return various errors.
            Err(error) => {
                return Err(match self.head_of(name).await {
                    Ok(meta) if range.end() > meta.size => past_end(meta.size),
                    Err(missing @ StorageError::NotFound { .. }) => missing,
                    Ok(_) | Err(_) => storage_error("read", name.as_str(), error),
                });
            }
        };
        let bytes = result
            .bytes()
            .await
            .map_err(|error| storage_error("read", name.as_str(), error))?;
        if bytes.len() as u64 == range.len {
            Ok(bytes.into())
        } else {
            Err(short(name))
        }
    }

    /// Reads up to `wanted` bytes from the begin of the range on, and keeps them. `None` if the
    /// answer is another one, or less than the range.
    pub(super) async fn read_ahead(
        &self,
        name: &ObjectName,
        range: ByteRange,
        wanted: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(end) = range.offset.checked_add(wanted) else {
            return Ok(None);
        };
        let asked = Some(GetRange::Bounded(range.offset..end));
        let read = async {
            let result = self.request(name, asked).await?;
            if result.range.start != range.offset {
                return Ok(None);
            }
            Ok(Some(Vec::from(result.bytes().await?)))
        };
        let bytes = match read.await {
            Ok(Some(bytes)) => bytes,
            // A second request would wait as long.
            Err(error) if is_silence(&error) => return Err(error),
            Ok(None) | Err(_) => return Ok(None),
        };
        let own = usize::try_from(range.len).ok().and_then(|len| bytes.get(..len));
        let own = own.map(<[u8]>::to_vec);
        if own.is_some() {
            self.ahead.keep(name, range.offset, Arc::new(bytes));
        }
        Ok(own)
    }

    pub(super) async fn read_tail(
        &self,
        name: &ObjectName,
        len: u64,
    ) -> Result<(Vec<u8>, u64), StorageError> {
        let result = match len {
            0 => None,
            len => match self.request(name, Some(GetRange::Suffix(len))).await {
                Ok(result) => Some(result),
                Err(error @ (Error::NotFound { .. } | Error::PermissionDenied { .. })) => {
                    return Err(storage_error("read", name.as_str(), error));
                }
                Err(error) if is_silence(&error) => return Err(storage_error("read", name.as_str(), error)),
                // The store does not support suffix ranges, or the object is empty and has none.
                Err(_) => None,
            },
        };
        if let Some(result) = result {
            let (whole, expected) = (result.meta.size, result.range.end - result.range.start);
            let bytes = result
                .bytes()
                .await
                .map_err(|error| storage_error("read", name.as_str(), error))?;
            return if bytes.len() as u64 == expected {
                Ok((bytes.into(), whole))
            } else {
                Err(short(name))
            };
        }
        let whole = self.head_of(name).await?.size;
        let len = len.min(whole);
        Ok((
            self.read_range(
                name,
                ByteRange {
                    offset: whole - len,
                    len,
                },
            )
            .await?,
            whole,
        ))
    }
}
