//! Who may connect, and how the connection is encrypted.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use std::path::PathBuf;

use kv_router_nats::{ClientCertificate, ConnectError, Credentials, Link, LinkConfig, TlsConfig};

use crate::model::{Model, becomes_exact, config};
use crate::server::Server;
use crate::streams::{fleet, follower};

/// Certificates for 127.0.0.1 that last a hundred years. The key of their authority is gone.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/broker/tls").join(name)
}

#[track_caller]
fn refused(config: LinkConfig) {
    let refused = Link::connect(config).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(_)), "{refused}");
}

#[track_caller]
fn works(config: LinkConfig) {
    let link = Link::connect(config).unwrap();
    let (mut replica, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 1);
    engines[0].steps(10);
    becomes_exact("connected", &mut replica, &mut model, &engines);
}

#[test]
fn a_token_is_asked_for() {
    let server = Server::with(&["--auth", "s3cret"]);
    refused(config(&server.url()));
    let mut link = config(&server.url());
    link.credentials = Credentials::Token(String::from("wrong"));
    refused(link.clone());
    link.credentials = Credentials::Token(String::from("s3cret"));
    works(link);
}

#[test]
fn a_user_and_a_password_are_asked_for() {
    let server = Server::with(&["--user", "router", "--pass", "s3cret"]);
    refused(config(&server.url()));
    let pair = |password: &str| Credentials::UserPassword {
        user: String::from("router"),
        password: password.to_owned(),
    };
    let mut link = config(&server.url());
    link.credentials = pair("wrong");
    refused(link.clone());
    link.credentials = pair("s3cret");
    works(link);
}

#[test]
fn the_connection_is_encrypted_and_both_sides_are_who_they_say() {
    let [certificate, key, authority] =
        ["server.pem", "server.key.pem", "authority.pem"].map(|name| file(name).display().to_string());
    let verify = ["--tlsverify", "--tlscacert", &authority];
    let server = Server::with(&[&["--tlscert", &certificate, "--tlskey", &key], &verify[..]].concat());

    let mut tls = TlsConfig::default();
    tls.client = Some(ClientCertificate { certificate: file("client.pem"), key: file("client.key.pem") });
    let mut link = config(&server.url());
    link.tls = Some(tls.clone());
    refused(link.clone()); // the system does not know the authority
    tls.authorities = Some(file("authority.pem"));
    link.tls = Some(tls.clone());
    works(link.clone());
    tls.client = None;
    link.tls = Some(tls);
    refused(link); // the server wants to know who we are
}

#[test]
fn a_server_that_does_not_encrypt_is_refused_by_who_wants_it() {
    let server = Server::start();
    let mut link = config(&server.url());
    link.tls = Some(TlsConfig::default());
    refused(link);
}
