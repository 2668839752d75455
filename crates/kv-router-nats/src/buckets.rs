//! Buckets of the key-value store whose entries expire.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::kv::Store;

use crate::error::{Cause, RequestError};
use crate::link::Shared;
use crate::snapshots::is_missing;

/// What a bucket is made with when it is not there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyValueBucket {
    /// Its name behind the prefix.
    pub(crate) word: &'static str,
    /// How long an entry lives.
    pub(crate) ttl: Duration,
    /// Largest entry.
    pub(crate) entry_bytes: usize,
    /// Servers that keep it.
    pub(crate) replicas: usize,
}

/// The bucket, made if it is not there.
pub(crate) async fn key_value(shared: &Shared, wanted: KeyValueBucket) -> Result<Store, RequestError> {
    let mut context = jetstream::new(shared.client.clone());
    context.set_timeout(shared.config.request_wait);
    let bucket = shared.config.prefix.bucket(wanted.word);
    match context.get_key_value(&bucket).await {
        Ok(store) => Ok(store),
        Err(error) if is_missing(&error) => {
            // The client's own call first asks for the limits of the account, in words that Debian's server does not
            // have; so the stream of the bucket is made as the servers' documentation lays it out.
            let stream = jetstream::stream::Config {
                name: format!("KV_{bucket}"),
                subjects: vec![format!("$KV.{bucket}.>")],
                max_messages_per_subject: 1,
                max_age: wanted.ttl,
                max_message_size: i32::try_from(wanted.entry_bytes).unwrap_or(i32::MAX),
                num_replicas: wanted.replicas,
                discard: jetstream::stream::DiscardPolicy::New,
                duplicate_window: wanted.ttl,
                allow_rollup: true,
                deny_delete: true,
                allow_direct: true,
                ..jetstream::stream::Config::default()
            };
            context.create_stream(stream).await.map_err(|e| RequestError::Broker(Cause::new(e)))?;
            context.get_key_value(&bucket).await.map_err(|e| RequestError::Broker(Cause::new(e)))
        }
        Err(error) => Err(RequestError::Broker(Cause::new(error))),
    }
}
