//! An authority of a test's own, in a folder that goes with it: no key outlives the test, and none is in the repository.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kv_router_nats::ClientCertificate;

use crate::server::folder;

/// Who may do what, in a file of our own, so that the machine's has no say. The roles are the sections.
const CONFIG: &str = "\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1
[client]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = clientAuth
";

/// Vouches for a server on the loopback address and for a client. Any two have the same name and different keys.
pub(crate) struct Authority {
    folder: PathBuf,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let authority = Self { folder: folder("tls") };
        std::fs::write(authority.file("config"), CONFIG).unwrap();
        authority.issue("authority", &[]);
        authority.sign("server");
        authority.sign("client");
        authority
    }

    /// What the other side needs to trust it.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.file("authority.pem")
    }

    /// Arguments for the server.
    pub(crate) fn server(&self) -> [String; 4] {
        let path = |name: &str| self.file(name).display().to_string();
        [String::from("--tlscert"), path("server.pem"), String::from("--tlskey"), path("server.key")]
    }

    pub(crate) fn client(&self) -> ClientCertificate {
        ClientCertificate { certificate: self.file("client.pem"), key: self.file("client.key") }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn sign(&self, role: &str) {
        self.issue(
            role,
            &["-CA".as_ref(), &self.certificate(), "-CAkey".as_ref(), &self.file("authority.key")],
        );
    }

    /// A new key and its certificate, by itself unless `by` names who signs.
    fn issue(&self, role: &str, by: &[&Path]) {
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "1",
            ])
            .args(["-subj", &format!("/CN={role}"), "-extensions", role])
            .args(["-config".as_ref(), self.file("config").as_path()])
            .args(["-keyout".as_ref(), self.file(&format!("{role}.key")).as_path()])
            .args(["-out".as_ref(), self.file(&format!("{role}.pem")).as_path()])
            .args(by)
            .stdin(Stdio::null())
            .output()
            .expect("openssl is missing: run `cargo xtask prepare`, or `apt-get install openssl` as root");
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "openssl (3.0 or later) makes no certificate of the {role}: {said}");
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        // Also after a failure: keys are not left lying about.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
