//! Who we are to the broker: what it is shown, and how what it asks is signed.
//!
//! A seed signs here and goes nowhere else. What is wrong with a seed or a file is said without anything that is in
//! it. Whether a JWT is valid is for the broker to say.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_nats::{Auth, AuthError, ConnectOptions};
use nkeys::{KeyPair, KeyPairType};

use crate::config::Credentials;
use crate::error::{CredentialsError, FileFault};

/// Largest credential file. JWTs with many permissions have a few KiB, and a server takes no larger ones.
const MOST_FILE_BYTES: u64 = 64 << 10;

/// Options that say who we are, after a look whether they can.
pub(crate) async fn options(credentials: &Credentials) -> Result<ConnectOptions, CredentialsError> {
    let options = ConnectOptions::new();
    Ok(match credentials {
        Credentials::None => options,
        Credentials::Token(token) => options.token(token.clone()),
        Credentials::UserPassword { user, password } => {
            options.user_and_password(user.clone(), password.clone())
        }
        Credentials::Nkey(seed) => {
            let user = Arc::new(User { jwt: None, key: user_key(seed).ok_or(CredentialsError::Seed)? });
            ConnectOptions::with_auth_callback(move |nonce| std::future::ready(user.answer(&nonce)))
        }
        Credentials::File(path) => {
            let path = Arc::new(path.clone());
            // One that cannot be used now is told of now. Later it may be missing for a moment, while it is replaced.
            read(Arc::clone(&path)).await?;
            ConnectOptions::with_auth_callback(move |nonce| {
                let path = Arc::clone(&path);
                async move { read(path).await.map_err(AuthError::new)?.answer(&nonce) }
            })
        }
    })
}

/// A user of the broker.
struct User {
    /// `None` where the broker knows users by their keys.
    jwt: Option<String>,
    key: KeyPair,
}

impl User {
    /// What to say to a broker that asks with `nonce`.
    fn answer(&self, nonce: &[u8]) -> Result<Auth, AuthError> {
        let mut auth = Auth::new();
        match &self.jwt {
            Some(jwt) => auth.jwt = Some(jwt.clone()),
            None => auth.nkey = Some(self.key.public_key()),
        }
        auth.signature = Some(self.key.sign(nonce).map_err(AuthError::new)?);
        Ok(auth)
    }
}

/// Reads a credential file, not on the link's thread: a file may be on a disk that does not answer.
async fn read(path: Arc<PathBuf>) -> Result<User, CredentialsError> {
    let theirs = Arc::clone(&path);
    let read = tokio::task::spawn_blocking(move || contents(&theirs)).await;
    let text = read.unwrap_or_else(|error| Err(FileFault::Read(error.into())));
    text.and_then(|text| parse(&text))
        .map_err(|fault| CredentialsError::File { path: path.to_path_buf(), fault })
}

fn contents(path: &Path) -> Result<String, FileFault> {
    let file = std::fs::File::open(path).map_err(FileFault::Read)?;
    let mut text = String::new();
    file.take(MOST_FILE_BYTES + 1).read_to_string(&mut text).map_err(FileFault::Read)?;
    if text.len() as u64 > MOST_FILE_BYTES {
        return Err(FileFault::TooLarge { limit: MOST_FILE_BYTES });
    }
    Ok(text)
}

/// The first two texts that stand between lines of dashes, a JWT and a seed, as other clients of NATS take them.
fn parse(text: &str) -> Result<User, FileFault> {
    let is_fence = |line: &&str| line.len() > 6 && line.starts_with("---") && line.ends_with("---");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut between = || {
        lines.by_ref().find(is_fence)?;
        let inner = lines.next()?;
        lines.next().filter(is_fence).map(|_| inner)
    };
    let jwt = between().filter(|jwt| is_jwt(jwt)).ok_or(FileFault::Jwt)?;
    let key = between().and_then(user_key).ok_or(FileFault::Seed)?;
    Ok(User { jwt: Some(jwt.to_owned()), key })
}

/// Whether it has the form of one: three words of base64 for addresses, with dots between.
fn is_jwt(text: &str) -> bool {
    let word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
    };
    text.split('.').count() == 3 && text.split('.').all(word)
}

fn user_key(seed: &str) -> Option<KeyPair> {
    KeyPair::from_seed(seed.trim()).ok().filter(|key| key.key_pair_type() == KeyPairType::User)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(jwt: &str, seed: &str) -> String {
        format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             ************************* IMPORTANT *************************\nKeep it secret.\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n\n\
             *************************************************************\n"
        )
    }

    #[test]
    fn a_credential_file_has_a_jwt_and_a_seed() {
        let key = KeyPair::new_user();
        let text = file("e30.e30.c2ln", &key.seed().unwrap());
        for text in
            [text.clone(), text.replace('\n', "\r\n"), text.replace('\n', "\n\n"), format!("# mine\n{text}")]
        {
            let user = parse(&text).unwrap_or_else(|fault| panic!("{fault}: {text}"));
            assert_eq!(user.jwt.as_deref(), Some("e30.e30.c2ln"));
            assert_eq!(user.key.public_key(), key.public_key());
            let auth = user.answer(b"nonce").unwrap();
            assert_eq!((auth.jwt.is_some(), auth.nkey), (true, None));
            key.verify(b"nonce", &auth.signature.unwrap()).unwrap();
        }
    }

    #[test]
    fn what_is_none_is_refused_by_its_part() {
        let seed = KeyPair::new_user().seed().unwrap();
        let account = KeyPair::new_account().seed().unwrap();
        let whole = file("e30.e30.c2ln", &seed);
        let no_jwt = [
            String::new(),
            seed.clone(),
            file("", &seed),
            file("e30.e30", &seed),
            file("e30..c2ln", &seed),
            file("e30.e 30.c2ln", &seed),
            whole.replace("---\n", "\n"),
        ];
        for text in no_jwt {
            assert!(matches!(parse(&text), Err(FileFault::Jwt)), "{text}");
        }
        let mut damaged = seed.clone();
        damaged.replace_range(20..21, if seed[20..].starts_with('A') { "B" } else { "A" });
        for bad in ["", "SU", &account, &damaged, &seed.to_lowercase(), "\u{e4}"] {
            assert!(matches!(parse(&file("e30.e30.c2ln", bad)), Err(FileFault::Seed)), "{bad}");
            assert!(user_key(bad).is_none(), "{bad}");
        }
        for end in 0..whole.len() {
            // Cut off anywhere: all of it or an error. The last fence is whole from its last three dashes on.
            let Some(cut) = whole.get(..end) else { continue };
            assert!(parse(cut).is_err() || cut.contains("------END USER NKEY"), "{cut}");
        }
    }

    #[test]
    fn a_fault_names_the_field_and_the_file_and_tells_nothing_of_a_secret() {
        let path = Path::new("no/such/file.creds");
        let fault = contents(path).unwrap_err();
        let error = CredentialsError::File { path: path.to_owned(), fault };
        assert!(error.to_string().starts_with("credentials: no/such/file.creds: cannot be read"), "{error}");
        assert!(CredentialsError::Seed.to_string().starts_with("credentials: "));
        let seed = KeyPair::new_account().seed().unwrap();
        let Err(fault) = parse(&file("e30.e30.c2ln", &seed)) else { panic!("of an account") };
        assert!(!format!("{fault} {fault:?}").contains(&seed[4..]));
    }

    #[test]
    fn a_file_without_an_end_is_not_read_to_it() {
        assert!(matches!(contents(Path::new("/dev/zero")), Err(FileFault::TooLarge { .. })));
    }
}
