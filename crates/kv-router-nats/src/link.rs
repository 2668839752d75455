//! The connection to the broker: one thread with all that is asynchronous on it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use futures_util::StreamExt;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

use crate::config::{FirstConnect, LinkConfig};
use crate::error::{Cause, ConnectError, RequestError};
use crate::identity;

/// Time beyond a deadline that the thread gets to say that it passed.
const GRACE: Duration = Duration::from_millis(500);

/// A connection to the broker. Relays, followers, stores, registries and gossip are made from it and end with it.
///
/// It owns one thread. When the connection is lost it comes back by itself, with growing waits, for ever;
/// subscriptions are kept. What is sent meanwhile waits, up to the limits of [`LinkConfig`]. Dropping the link
/// closes it without waiting for what is not sent yet; [`close`](Self::close) waits.
pub struct Link {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<Duration>>,
    ended: Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

/// What everything made from a link keeps.
pub(crate) struct Shared {
    pub(crate) client: async_nats::Client,
    pub(crate) config: LinkConfig,
    handle: Handle,
    events: Arc<Events>,
}

/// What happened to the connection.
#[derive(Debug)]
struct Events {
    /// How often the connection came up.
    ups: watch::Sender<u64>,
    disconnects: AtomicU64,
    slow: AtomicU64,
    errors: AtomicU64,
}

/// What happened to the connection so far. Each number only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkCounters {
    /// Times it came up, the first included.
    pub connects: u64,
    /// Times it was lost.
    pub disconnects: u64,
    /// Times the client dropped messages because one of our own tasks did not take them.
    pub slow: u64,
    /// Errors that the server or the client reported: permissions, protocol.
    pub errors: u64,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`ConnectError`] when the configuration makes no sense or the credentials cannot be used, or, under
    /// [`FirstConnect::Required`], when the broker is not there within `connect_wait` or does not let us in.
    pub fn connect(config: LinkConfig) -> Result<Self, ConnectError> {
        config.validate()?;
        let events = Arc::new(Events {
            ups: watch::Sender::new(0),
            disconnects: AtomicU64::new(0),
            slow: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        });
        let (connected, connection) = bounded(1);
        let (stop, stopped) = oneshot::channel();
        let (ending, ended) = bounded::<()>(1);
        let (told, theirs, wait) = (config.clone(), Arc::clone(&events), config.connect_wait);
        let mut up = events.ups.subscribe();
        let thread = std::thread::Builder::new()
            .name(String::from("kv-router-nats"))
            .spawn(move || {
                let runtime = match Builder::new_current_thread().enable_all().build() {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(connected.send(Err(ConnectError::Thread(error)))),
                };
                let handle = runtime.handle().clone();
                runtime.block_on(async move {
                    let client = match tokio::time::timeout(wait, connect(&told, &theirs)).await {
                        Ok(Ok(client)) => client,
                        Ok(Err(error)) => return drop(connected.send(Err(error))),
                        Err(_) => return drop(connected.send(Err(ConnectError::Timeout { wait }))),
                    };
                    // Counted before anybody can look, or the first connection would seem to be a second one.
                    if told.first_connect == FirstConnect::Required {
                        drop(tokio::time::timeout(wait, up.wait_for(|ups| *ups > 0)).await);
                    }
                    if connected.send(Ok((client.clone(), handle))).is_err() {
                        return;
                    }
                    // A link that was dropped sends no wait, and gets none.
                    if let Ok(wait) = stopped.await {
                        // Whether all was sent in time is unknown either way; who must know flushes its own.
                        drop(tokio::time::timeout(wait, client.flush()).await);
                    }
                });
                // Tasks that are still there are dropped where they wait.
                runtime.shutdown_background();
                drop(ending);
            })
            .map_err(ConnectError::Thread)?;
        let (client, handle) = match connection.recv_timeout(wait * 2 + GRACE) {
            Ok(result) => result?,
            Err(_) => return Err(ConnectError::Timeout { wait }),
        };
        let shared = Arc::new(Shared { client, config, handle, events });
        Ok(Self { shared, stop: Some(stop), ended, thread: Some(thread) })
    }

    /// Whether the connection is up, as far as is known: a broker that went silent is noticed after two
    /// `ping_interval`s.
    pub fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// What happened so far.
    pub fn counters(&self) -> LinkCounters {
        let events = &self.shared.events;
        LinkCounters {
            connects: *events.ups.borrow(),
            disconnects: events.disconnects.load(Ordering::Relaxed),
            slow: events.slow.load(Ordering::Relaxed),
            errors: events.errors.load(Ordering::Relaxed),
        }
    }

    /// Sends what waits, for up to `wait`, then ends the thread. Everything made from the link is closed.
    pub fn close(mut self, wait: Duration) {
        if let Some(stop) = self.stop.take() {
            let _gone = stop.send(wait);
        }
        if self.ended.recv_timeout(wait + GRACE) == Err(RecvTimeoutError::Disconnected)
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("up", &self.is_up()).finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn is_up(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }

    /// How often the connection came up, to be watched.
    pub(crate) fn ups(&self) -> watch::Receiver<u64> {
        self.events.ups.subscribe()
    }

    /// Runs a future on the link's thread that ends by itself, or with the link.
    pub(crate) fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(future));
    }

    /// Runs a future on the link's thread; it ends with the link or with what is returned.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.handle.spawn(future).abort_handle())
    }

    /// Runs a future on the link's thread and waits for it. Never call it from there.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        wait: Duration,
        future: impl Future<Output = Result<T, RequestError>> + Send + 'static,
    ) -> Result<T, RequestError> {
        let (done, result) = bounded(1);
        let task = self.spawn(async move {
            let outcome = match tokio::time::timeout(wait, future).await {
                Ok(outcome) => outcome,
                Err(_) => Err(RequestError::Timeout { wait }),
            };
            drop(done.send(outcome));
        });
        let outcome = match result.recv_timeout(wait + GRACE) {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => Err(RequestError::Timeout { wait }),
            Err(RecvTimeoutError::Disconnected) => Err(RequestError::Closed),
        };
        drop(task);
        outcome
    }
}

/// Subscribes. When the connection is up, what is published anywhere after this returns comes in; otherwise what is
/// published after it came up.
pub(crate) async fn subscribe(
    client: &async_nats::Client,
    subject: String,
) -> Result<async_nats::Subscriber, RequestError> {
    let subscriber = client.subscribe(subject).await.map_err(|e| RequestError::Broker(Cause::new(e)))?;
    if client.connection_state() == async_nats::connection::State::Connected {
        round_trip(client).await?;
    }
    Ok(subscriber)
}

/// Returns when the server has handled all that was sent before.
///
/// The client's flush only empties its buffer into the socket. A message to ourselves comes back no sooner than the
/// server is through with what went before it on the same connection.
pub(crate) async fn round_trip(client: &async_nats::Client) -> Result<(), RequestError> {
    let inbox = client.new_inbox();
    let mut echo = client.subscribe(inbox.clone()).await.map_err(|e| RequestError::Broker(Cause::new(e)))?;
    client.publish(inbox, Bytes::new()).await.map_err(|e| RequestError::Broker(Cause::new(e)))?;
    echo.next().await.map(drop).ok_or(RequestError::Closed)
}

/// A task that ends when this is dropped.
pub(crate) struct Task(tokio::task::AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn connect(config: &LinkConfig, events: &Arc<Events>) -> Result<async_nats::Client, ConnectError> {
    let options = options(identity::options(&config.credentials).await?, config, events);
    let addresses: Vec<String> = config.servers.split(',').map(|server| server.trim().to_owned()).collect();
    options.connect(addresses).await.map_err(|error| match error.kind() {
        async_nats::ConnectErrorKind::AuthorizationViolation => ConnectError::Denied(Cause::new(error)),
        _ => ConnectError::Refused(Cause::new(error)),
    })
}

/// All that is not about who we are.
fn options(
    ours: async_nats::ConnectOptions,
    config: &LinkConfig,
    events: &Arc<Events>,
) -> async_nats::ConnectOptions {
    let (seen, backoff) = (Arc::clone(events), config.backoff);
    let mut options = ours
        .name("kv-router")
        .connection_timeout(config.connect_wait)
        .request_timeout(Some(config.request_wait))
        .ping_interval(config.ping_interval)
        .subscription_capacity(config.waiting_messages)
        .client_capacity(config.outgoing_messages)
        .max_reconnects(None)
        .reconnect_delay_callback(move |attempt| backoff.wait(attempt))
        .event_callback(move |event| {
            seen.record(&event);
            std::future::ready(())
        });
    if config.first_connect == FirstConnect::Background {
        options = options.retry_on_initial_connect();
    }
    if let Some(tls) = &config.tls {
        options = options.require_tls(true);
        if let Some(file) = &tls.authorities {
            options = options.add_root_certificates(file.clone());
        }
        if let Some(client) = &tls.client {
            options = options.add_client_certificate(client.certificate.clone(), client.key.clone());
        }
    }
    options
}

impl Events {
    fn record(&self, event: &async_nats::Event) {
        use async_nats::Event;
        let counter = match event {
            Event::Connected => return self.ups.send_modify(|ups| *ups += 1),
            Event::Disconnected => &self.disconnects,
            Event::SlowConsumer(_) => &self.slow,
            Event::ServerError(_) | Event::ClientError(_) => &self.errors,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
