//! A NATS server with JetStream on disk, on a loopback port and in a folder of its own. It can be killed, and started
//! again as it was.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where the server may be. Debian's place is not on everybody's path.
const PROGRAMS: [&str; 2] = ["nats-server", "/usr/sbin/nats-server"];
/// Looks at a server that starts, and the pause between two.
const LOOKS: u32 = 4_000;
const PAUSE: Duration = Duration::from_millis(5);

/// A server that ends with this.
#[derive(Debug)]
pub struct Broker {
    child: Option<Child>,
    port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
}

/// Why there is no server.
#[derive(Debug)]
#[non_exhaustive]
pub enum BrokerError {
    /// The program is not installed.
    Missing,
    /// It ended at once, or nobody can connect.
    NotUp {
        /// Where it says why.
        log: PathBuf,
    },
    /// The system refused a folder, a port or a process.
    Io(io::Error),
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str(
                "nats-server is missing: run `cargo xtask prepare`, or `apt-get install nats-server` as root",
            ),
            Self::NotUp { log } => write!(f, "nats-server does not start: see {}", log.display()),
            Self::Io(error) => write!(f, "no place for a nats-server: {error}"),
        }
    }
}

impl Error for BrokerError {}

impl From<io::Error> for BrokerError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Broker {
    /// Starts one that keeps its things in `folder`, which is made, and not taken away.
    ///
    /// # Errors
    ///
    /// [`BrokerError`].
    pub fn start(folder: &Path, arguments: &[&str]) -> Result<Self, BrokerError> {
        std::fs::create_dir_all(folder)?;
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut broker = Self { child: None, port: 0, folder: folder.to_owned(), arguments };
        // Another process may take the port between our look and the server's start: then there is another one.
        for _ in 0..5 {
            broker.port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            if broker.run()? {
                return Ok(broker);
            }
        }
        Err(BrokerError::NotUp { log: broker.log() })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The same, for clients.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // One that is gone already is as well.
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Starts it again, on the same port and folder.
    ///
    /// # Errors
    ///
    /// [`BrokerError`].
    pub fn restart(&mut self) -> Result<(), BrokerError> {
        self.kill();
        if self.run()? { Ok(()) } else { Err(BrokerError::NotUp { log: self.log() }) }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// `false` when it ended at once.
    fn run(&mut self) -> Result<bool, BrokerError> {
        let log = self.log();
        let spawned = PROGRAMS.iter().find_map(|program| {
            Command::new(program)
                .args(["--addr", "127.0.0.1", "--port", &self.port.to_string(), "--jetstream"])
                .args(["--store_dir", &self.folder.to_string_lossy(), "--log", &log.to_string_lossy()])
                .args(&self.arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .ok()
        });
        self.child = Some(spawned.ok_or(BrokerError::Missing)?);
        for _ in 0..LOOKS {
            let ended = self.child.as_mut().map(Child::try_wait).transpose()?.flatten().is_some();
            if ended {
                break;
            }
            if TcpStream::connect_timeout(&self.address(), Duration::from_secs(1)).is_ok() {
                return Ok(true);
            }
            std::thread::park_timeout(PAUSE);
        }
        self.kill();
        Ok(false)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}
