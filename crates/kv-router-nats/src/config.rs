//! How to reach the broker, and what may be spent on it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::{ConfigError, SubjectPrefix};

/// Longest wait that can be meant.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// How to reach the broker.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkConfig {
    /// Address of the server, `nats://host:port`, or `tls://` to require TLS. Several of one cluster are separated
    /// by commas. Default: `nats://127.0.0.1:4222`.
    pub servers: String,
    /// First words of every subject and bucket: two fleets on one broker need two. Default: `kvr`.
    pub prefix: SubjectPrefix,
    /// Who we are. Default: nobody.
    pub credentials: Credentials,
    /// How the connection is encrypted. Default `None`: as the server says, by the authorities that the system trusts.
    pub tls: Option<TlsConfig>,
    /// What a broker that is not there at start means. Default: [`FirstConnect::Required`].
    pub first_connect: FirstConnect,
    /// Longest wait for one attempt to connect. Default: 5 s.
    pub connect_wait: Duration,
    /// Longest wait for the answer to one request. Default: 5 s.
    pub request_wait: Duration,
    /// Silence after which the server is asked whether it is there; a second silence ends the connection.
    /// Default: 2 s.
    pub ping_interval: Duration,
    /// Waits between attempts to reconnect. They never end by themselves.
    pub backoff: Backoff,
    /// Messages of one subscription that may wait in this process. More are dropped and counted. Default: 8,192.
    pub waiting_messages: usize,
    /// Payload bytes of one subscription that may wait in this process. Default: 64 MiB.
    pub waiting_bytes: usize,
    /// Messages that may wait to be sent: those of one rank to its socket. Default: 1,024.
    pub outgoing_messages: usize,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            servers: String::from("nats://127.0.0.1:4222"),
            prefix: SubjectPrefix::default(),
            credentials: Credentials::None,
            tls: None,
            first_connect: FirstConnect::Required,
            connect_wait: Duration::from_secs(5),
            request_wait: Duration::from_secs(5),
            ping_interval: Duration::from_secs(2),
            backoff: Backoff::default(),
            waiting_messages: 8192,
            waiting_bytes: 64 << 20,
            outgoing_messages: 1024,
        }
    }
}

impl LinkConfig {
    /// Checks that the parts make sense.
    ///
    /// # Errors
    ///
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, wait) in [
            ("connect_wait", self.connect_wait),
            ("request_wait", self.request_wait),
            ("ping_interval", self.ping_interval),
            ("backoff.first", self.backoff.first),
            ("backoff.most", self.backoff.most),
        ] {
            check_wait(field, wait)?;
        }
        for (field, count) in [
            ("waiting_messages", self.waiting_messages),
            ("waiting_bytes", self.waiting_bytes),
            ("outgoing_messages", self.outgoing_messages),
        ] {
            check_count(field, count)?;
        }
        Ok(())
    }
}

pub(crate) fn check_wait(field: &'static str, wait: Duration) -> Result<(), ConfigError> {
    if wait.is_zero() || wait > MAX_WAIT {
        return Err(ConfigError::WaitOutOfRange { field, wait });
    }
    Ok(())
}

pub(crate) fn check_count(field: &'static str, count: usize) -> Result<(), ConfigError> {
    if count == 0 { Err(ConfigError::Zero { field }) } else { Ok(()) }
}

/// What a broker that is not there at start means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstConnect {
    /// [`Link::connect`](crate::Link::connect) fails.
    Required,
    /// It succeeds, and goes on trying.
    Background,
}

/// Who we are to the broker.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credentials {
    /// The broker asks nobody.
    #[default]
    None,
    /// A token.
    Token(String),
    /// A user and a password.
    UserPassword {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// The seed of a user's key (nkey, `SU...`), whose public part the broker knows. The seed itself never leaves this
    /// process: it signs what the broker asks.
    Nkey(String),
    /// A credential file (`.creds`) of decentralised authentication: a JWT that an account of the broker's operator
    /// gave a user, and the seed of the user's key. It is read whenever a connection is made, so that a new JWT in the
    /// place of one that expires needs no new start.
    File(PathBuf),
}

/// Secrets stay out of logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::UserPassword { user, .. } => write!(f, "UserPassword({user:?}, ..)"),
            Self::Nkey(_) => f.write_str("Nkey(..)"),
            Self::File(path) => write!(f, "File({path:?})"),
        }
    }
}

/// An encrypted connection: one that is not is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsConfig {
    /// A file of certificates (PEM) of authorities that are trusted, beside those that the system trusts. It is read
    /// whenever a connection is made.
    pub authorities: Option<PathBuf>,
    /// Who we are, for a server that asks.
    pub client: Option<ClientCertificate>,
}

/// A certificate by which the server knows us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The file of the certificate and those that lead to its authority (PEM).
    pub certificate: PathBuf,
    /// The file of its private key (PEM).
    pub key: PathBuf,
}

/// Waits between attempts to reconnect: each twice the one before, up to `most`, cut by up to half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait. Default: 50 ms.
    pub first: Duration,
    /// The longest. Default: 2 s.
    pub most: Duration,
    /// Decides by how much each wait is cut. Give every process another one, so that a fleet whose broker came
    /// back does not return in one instant. Default: 0.
    pub spread: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(50), most: Duration::from_secs(2), spread: 0 }
    }
}

impl Backoff {
    /// The wait before attempt `attempt`, from 1.
    pub(crate) fn wait(&self, attempt: usize) -> Duration {
        let doublings = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX).min(20);
        let full = self.first.saturating_mul(1 << doublings).min(self.most);
        // The finaliser of SplitMix64: neighbouring attempts and seeds come out unrelated.
        let mut mixed = self.spread.wrapping_add((attempt as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let cut = full.as_nanos() as u64 / 2;
        full - Duration::from_nanos(if cut == 0 { 0 } else { (mixed ^ (mixed >> 31)) % cut })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_limit_and_differ_by_seed() {
        let backoff = Backoff::default();
        for attempt in 1..200 {
            let full = backoff.first.saturating_mul(1 << (attempt - 1).min(20)).min(backoff.most);
            let wait = backoff.wait(attempt as usize);
            assert!(wait <= full && wait >= full / 2, "{attempt}: {wait:?} of {full:?}");
        }
        let other = Backoff { spread: 1, ..backoff };
        assert!((1..9).any(|attempt| backoff.wait(attempt) != other.wait(attempt)));
        assert!(backoff.wait(usize::MAX) <= backoff.most);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let config = LinkConfig { request_wait: Duration::ZERO, ..LinkConfig::default() };
        assert!(matches!(config.validate(), Err(ConfigError::WaitOutOfRange { field: "request_wait", .. })));
        let config = LinkConfig { waiting_bytes: 0, ..LinkConfig::default() };
        assert!(matches!(config.validate(), Err(ConfigError::Zero { field: "waiting_bytes" })));
    }

    #[test]
    fn secrets_are_not_shown() {
        let token = Credentials::Token(String::from("s3cret"));
        let pair = Credentials::UserPassword { user: String::from("u"), password: String::from("s3cret") };
        let seed = Credentials::Nkey(String::from("s3cret"));
        assert!(!format!("{token:?}{pair:?}{seed:?}").contains("s3cret"));
    }
}
