//! A broker that knows users by their keys, and an operator whose accounts vouch for users. All keys are made by the test.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use nkeys::KeyPair;

use crate::server::folder;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(1 << 30);

/// A folder for one test's secrets, which goes with it.
pub(crate) struct Secrets {
    folder: PathBuf,
}

impl Secrets {
    pub(crate) fn new() -> Self {
        Self { folder: folder("keys") }
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        // In one step, as whoever replaces a file that others read does it.
        let beside = self.folder.join(format!("{name}.new"));
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(&beside, &path).unwrap();
        path
    }

    /// Configuration of a server that knows this user by the public key.
    pub(crate) fn knows(&self, user: &KeyPair) -> PathBuf {
        let users = format!("authorization {{ users = [ {{ nkey: {} }} ] }}", user.public_key());
        self.write("server.conf", &users)
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        // Also after a failure: keys are not left lying about.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Vouches for accounts, of which it has one for the system and one for the fleet.
pub(crate) struct Operator {
    key: KeyPair,
    system: KeyPair,
    account: KeyPair,
}

impl Operator {
    pub(crate) fn new() -> Self {
        let [system, account] = [(); 2].map(|()| KeyPair::new_account());
        Self { key: KeyPair::new_operator(), system, account }
    }

    /// Configuration of a server of this operator's, with all its accounts in memory.
    pub(crate) fn server(&self, secrets: &Secrets) -> PathBuf {
        let system = self.system.public_key();
        let about = format!(r#""system_account":"{system}","type":"operator""#);
        let operator = jwt(&self.key, &self.key.public_key(), &about, LONG);
        // A server does not start when the account of the system may store anything.
        let stores = r#","mem_storage":-1,"disk_storage":-1,"streams":-1,"consumer":-1"#;
        let accounts = [(system, ""), (self.account.public_key(), stores)].map(|(account, stores)| {
            let limits = format!(
                r#""limits":{{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,
                    "leaf":-1{stores}}},"type":"account""#
            );
            format!("{account}: {}\n", jwt(&self.key, &account, &limits, LONG))
        });
        let accounts = accounts.concat();
        let operator = secrets.write("operator.jwt", &operator);
        secrets.write(
            "server.conf",
            &format!(
                "operator: \"{}\"\nresolver: MEMORY\nresolver_preload: {{\n{accounts}}}\n",
                operator.display()
            ),
        )
    }

    /// What the account gives a new user of its own.
    pub(crate) fn user(&self) -> String {
        self.user_for(LONG)
    }

    /// The same, but only for a time.
    pub(crate) fn user_for(&self, time: Duration) -> String {
        let user = KeyPair::new_user();
        let about = r#""subs":-1,"data":-1,"payload":-1,"type":"user""#;
        let jwt = jwt(&self.account, &user.public_key(), about, time);
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    }
}

/// What `issuer` says of `subject`, signed, and for how long it holds.
#[expect(clippy::disallowed_methods, reason = "the server goes by the real time")]
fn jwt(issuer: &KeyPair, subject: &str, about: &str, time: Duration) -> String {
    let head = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;
    let end = (SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + time).as_secs();
    let issuer_name = issuer.public_key();
    let claims = format!(
        r#"{{"jti":"of-a-test","iat":1700000000,"exp":{end},"iss":"{issuer_name}","name":"of a test","sub":"{subject}",
            "nats":{{{about},"version":2}}}}"#
    );
    let signed = format!("{}.{}", base64(head.as_bytes()), base64(claims.as_bytes()));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", base64(&signature))
}

/// In the alphabet for addresses, without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |group: &[u8]| {
        let number = group.iter().fold(0, |number, &byte| (number << 8) | usize::from(byte))
            << (8 * (3 - group.len()));
        (0..=group.len())
            .map(move |at| char::from(DIGITS[(number >> (18 - 6 * at)) & 63]))
            .collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}
