//! Users known by their keys, and users that an account vouches for.
#![expect(clippy::unwrap_used, reason = "a helper of tests: what fails here fails the test")]

use std::path::Path;
use std::time::Duration;

use kv_router_nats::{
    ConnectError, Credentials, CredentialsError, FileFault, FirstConnect, Link, LinkConfig,
};
use nkeys::KeyPair;

use crate::accounts::{Operator, Secrets};
use crate::connections::{denied, works};
use crate::model::{PATIENCE, config, until};
use crate::server::Server;

fn server(config: &Path) -> Server {
    Server::with(&["--config", &config.to_string_lossy()])
}

fn with(server: &Server, credentials: Credentials) -> LinkConfig {
    let mut link = config(&server.url());
    link.credentials = credentials;
    link
}

#[track_caller]
fn unusable(config: LinkConfig) -> CredentialsError {
    match Link::connect(config).unwrap_err() {
        ConnectError::Credentials(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn a_user_is_known_by_the_key() {
    let (secrets, user) = (Secrets::new(), KeyPair::new_user());
    let server = server(&secrets.knows(&user));
    let nkey = |seed: String| with(&server, Credentials::Nkey(seed));
    denied(config(&server.url()));
    denied(nkey(KeyPair::new_user().seed().unwrap()));
    works(nkey(user.seed().unwrap()));
    // A seed of something else, or none, is not shown to anybody.
    for bad in [KeyPair::new_account().seed().unwrap(), user.public_key(), String::new()] {
        assert!(matches!(unusable(nkey(bad)), CredentialsError::Seed));
    }
}

#[test]
fn an_account_vouches_for_a_user() {
    let (secrets, operator) = (Secrets::new(), Operator::new());
    let server = server(&operator.server(&secrets));
    let file = |text: &str| with(&server, Credentials::File(secrets.write("user.creds", text)));
    let ours = operator.user();
    works(file(&ours));
    denied(config(&server.url()));
    denied(file(&Operator::new().user()));
    // The word of the account with the key of another user of it.
    let theirs = operator.user();
    let (jwt, seed) = (ours.split_once("\n\n").unwrap().0, theirs.split_once("\n\n").unwrap().1);
    denied(file(&format!("{jwt}\n\n{seed}")));
    works(file(&theirs));
}

#[test]
fn a_file_that_is_none_is_named() {
    let (server, secrets) = (Server::start(), Secrets::new());
    let check = |path: &Path| {
        let error = unusable(with(&server, Credentials::File(path.to_owned())));
        let said = error.to_string();
        assert!(said.starts_with("credentials: ") && said.contains(&*path.to_string_lossy()), "{said}");
        let CredentialsError::File { fault, .. } = error else { panic!("{said}") };
        fault
    };
    let good = Operator::new().user();
    let (jwt, seed) = good.split_once("\n\n").unwrap();
    assert!(matches!(check(&secrets.write("user.creds", seed)), FileFault::Jwt));
    assert!(matches!(check(&secrets.write("user.creds", jwt)), FileFault::Seed));
    assert!(matches!(check(Path::new("/dev/zero")), FileFault::TooLarge { .. }));
    std::fs::remove_file(secrets.write("user.creds", "")).unwrap();
    assert!(matches!(check(&secrets.write("other", "").with_file_name("user.creds")), FileFault::Read(_)));
}

#[test]
fn a_user_whose_time_is_over_comes_back_with_the_new_file() {
    let (secrets, operator) = (Secrets::new(), Operator::new());
    let server = server(&operator.server(&secrets));
    let short = operator.user_for(Duration::from_secs(3));
    let link = Link::connect(with(&server, Credentials::File(secrets.write("user.creds", &short)))).unwrap();
    // In the second in which it ends, the server lets it in and throws it out.
    let mut last = link.counters();
    assert!(until(PATIENCE, || {
        let now = link.counters();
        if now.connects > last.connects {
            last = now;
        }
        now.disconnects > 0 && now.errors >= last.errors + 4
    }));
    assert!(!link.is_up());
    secrets.write("user.creds", &operator.user());
    assert!(until(PATIENCE, || link.is_up() && link.counters().connects == last.connects + 1));
}

#[test]
fn a_link_that_is_locked_out_takes_the_new_file() {
    let (secrets, operator) = (Secrets::new(), Operator::new());
    let server = server(&operator.server(&secrets));
    let path = secrets.write("user.creds", &Operator::new().user());
    let mut patient = with(&server, Credentials::File(path.clone()));
    patient.first_connect = FirstConnect::Background;
    let link = Link::connect(patient).unwrap();
    let errors = || link.counters().errors;
    assert!(until(PATIENCE, || errors() >= 3));
    assert!(!link.is_up());
    // Missing for a moment is no worse than wrong.
    std::fs::remove_file(path).unwrap();
    let before = errors();
    assert!(until(PATIENCE, || errors() >= before + 2));
    secrets.write("user.creds", &operator.user());
    assert!(until(PATIENCE, || link.is_up()));
    assert_eq!(link.counters().connects, 1);
}
