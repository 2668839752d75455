//! A relay of bytes between a client and the server that can stop passing them on: a partition without a reset.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a thread looks at a silent socket before it looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(20);

/// The network between some clients and the server.
#[derive(Debug)]
pub struct Partition {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    stalled: AtomicBool,
    over: AtomicBool,
}

impl Partition {
    /// A network to this server, whole.
    ///
    /// # Errors
    ///
    /// When the system has no socket for it.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, state) = (listener.local_addr()?, Arc::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if shared.over.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { continue };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let state = Arc::clone(&shared);
                    std::thread::spawn(move || pass(from, to, &state));
                }
            }
        });
        Ok(Self { address, state })
    }

    /// Where clients connect.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Nothing gets through, and nobody is told.
    pub fn stall(&self) {
        self.state.stalled.store(true, Ordering::Relaxed);
    }

    /// Everything gets through again, on new connections.
    pub fn heal(&self) {
        self.state.stalled.store(false, Ordering::Relaxed);
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address)); // wakes the listener
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State) {
    let mut bytes = [0; 64 << 10];
    while !state.over.load(Ordering::Relaxed) && from.set_read_timeout(Some(LOOK)).is_ok() {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                // What a partition swallows never comes, so a connection of before it is of no use after it.
                let swallowed = state.stalled.load(Ordering::Relaxed);
                if swallowed {
                    while state.stalled.load(Ordering::Relaxed) && !state.over.load(Ordering::Relaxed) {
                        std::thread::park_timeout(LOOK);
                    }
                    break;
                }
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    // Whether the other side is still there or not: it is over.
    drop(to.shutdown(std::net::Shutdown::Both));
    drop(from.shutdown(std::net::Shutdown::Both));
}
