//! Who may connect, and how the connection is encrypted.
#![expect(clippy::unwrap_used, reason = "helpers of tests: what fails here fails the test")]

use std::time::Instant;

use kv_router_nats::{ConnectError, Credentials, Link, LinkConfig, TlsConfig};

use crate::certificates::Authority;
use crate::model::{Model, becomes_exact, config};
use crate::server::Server;
use crate::streams::{fleet, follower};

#[track_caller]
fn refused(config: LinkConfig) {
    let refused = Link::connect(config).unwrap_err();
    assert!(matches!(refused, ConnectError::Refused(_)), "{refused}");
}

/// Quickly, too: nobody tries again with the same credentials.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "a test against a real server needs the real time")]
pub(crate) fn denied(config: LinkConfig) {
    let (start, wait) = (Instant::now(), config.connect_wait);
    let denied = Link::connect(config).unwrap_err();
    assert!(matches!(denied, ConnectError::Denied(_)), "{denied}");
    assert!(start.elapsed() < wait, "{:?}", start.elapsed());
}

#[track_caller]
pub(crate) fn works(config: LinkConfig) {
    let link = Link::connect(config).unwrap();
    let (mut replica, mut model) = (follower(&link), Model::default());
    let mut engines = fleet(&link, 1, 1);
    engines[0].steps(10);
    becomes_exact("connected", &mut replica, &mut model, &engines);
}

/// A server that `authority` vouches for.
fn encrypting(authority: &Authority, more: &[&str]) -> Server {
    let certificate = authority.server();
    Server::with(&[&certificate.each_ref().map(String::as_str), more].concat())
}

#[test]
fn a_token_is_asked_for() {
    let server = Server::with(&["--auth", "s3cret"]);
    denied(config(&server.url()));
    let mut link = config(&server.url());
    link.credentials = Credentials::Token(String::from("wrong"));
    denied(link.clone());
    link.credentials = Credentials::Token(String::from("s3cret"));
    works(link);
}

#[test]
fn a_user_and_a_password_are_asked_for() {
    let server = Server::with(&["--user", "router", "--pass", "s3cret"]);
    denied(config(&server.url()));
    let pair = |password: &str| Credentials::UserPassword {
        user: String::from("router"),
        password: password.to_owned(),
    };
    let mut link = config(&server.url());
    link.credentials = pair("wrong");
    denied(link.clone());
    link.credentials = pair("s3cret");
    works(link);
}

#[test]
fn the_connection_is_encrypted_and_both_sides_are_who_they_say() {
    let authority = Authority::new();
    let server =
        encrypting(&authority, &["--tlsverify", "--tlscacert", &authority.certificate().to_string_lossy()]);

    let mut tls = TlsConfig::default();
    tls.client = Some(authority.client());
    let mut link = config(&server.url());
    link.tls = Some(tls.clone());
    refused(link.clone()); // the system does not know the authority
    tls.authorities = Some(authority.certificate());
    link.tls = Some(tls.clone());
    works(link.clone());
    tls.client = None;
    link.tls = Some(tls.clone());
    refused(link.clone()); // the server wants to know who we are
    let stranger = Authority::new();
    tls.client = Some(stranger.client());
    link.tls = Some(tls);
    refused(link); // and does not take the word of an authority that it does not trust
}

#[test]
fn a_server_that_another_authority_vouches_for_is_refused() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = encrypting(&theirs, &[]);
    let mut tls = TlsConfig::default();
    let mut link = config(&server.url());
    tls.authorities = Some(ours.certificate());
    link.tls = Some(tls.clone());
    refused(link.clone());
    tls.authorities = Some(theirs.certificate());
    link.tls = Some(tls);
    works(link); // so nothing but the authority was wrong
}

#[test]
fn a_server_that_does_not_encrypt_is_refused_by_who_wants_it() {
    let server = Server::start();
    let mut link = config(&server.url());
    link.tls = Some(TlsConfig::default());
    refused(link);
}
