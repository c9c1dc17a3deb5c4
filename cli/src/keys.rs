//! `aquila keys`: the private key file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aquila_proto::identity::{Identity, KeyError};
use aquila_proto::transfer::cast::{CastKey, CastKeyError};
use ring::rand::{SecureRandom, SystemRandom};

use crate::args::{KeyFileArgs, KeysCommand};
use crate::config::{self, Environment, File, Invalid, LoadError};

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// There is one, which is not replaced.
    #[error(
        "{} exists already and is not replaced: the other side knows its public key. Show it with `aquila keys show`, or \
         remove the file first if you mean it",
        .0.display()
    )]
    Exists(PathBuf),
    /// There is none.
    #[error("there is no private key at {}: make one with `aquila keys generate`", .0.display())]
    Missing(PathBuf),
    /// Others may read it.
    #[error(
        "{} may be read by others (mode {mode:03o}): whoever has it can pose as this side. Run `chmod 600` on it, or make a \
         new one if it was seen",
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It cannot be read or written.
    #[error("cannot {doing} {}: {error}{hint}", path.display())]
    Io {
        /// What failed.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
        /// What may help.
        hint: &'static str,
    },
    /// It is something else.
    #[error("{} is {error}", path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// What it is.
        error: KeyError,
    },
    /// A shared key that is not there.
    #[error("there is no shared key at {}: make one with `aquila keys shared --out FILE`, and give a copy to each member", .0.display())]
    NoShared(PathBuf),
    /// Another file.
    #[error("{} is {error}", path.display())]
    NotShared {
        /// The file.
        path: PathBuf,
        /// What it is.
        error: CastKeyError,
    },
    /// The system has no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomness,
    /// The configuration file cannot be used.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// There is no place for it.
    #[error(transparent)]
    NoPlace(#[from] Invalid),
}

/// Runs `aquila keys`, writing to `out`.
pub fn run(command: KeysCommand, out: &mut impl Write) -> anyhow::Result<()> {
    match command {
        KeysCommand::Generate(file) => {
            let path = locate(file, &Environment::read())?;
            let identity = generate(&path)?;
            describe(&identity, &path, out)?;
            writeln!(out, "\nGive the public key to the other side: --peer {}", identity.public())?;
        }
        KeysCommand::Show { file, public } => {
            let path = locate(file, &Environment::read())?;
            let identity = load(&path)?;
            match public {
                true => writeln!(out, "{}", identity.public())?,
                false => describe(&identity, &path, out)?,
            }
        }
        KeysCommand::Shared { out: path } => {
            let key = generate_shared(&path)?;
            writeln!(out, "shared key   {}\nfingerprint  {}", path.display(), key.fingerprint())?;
            writeln!(out, "\nGive each member of the cast a copy that nobody else can read.")?;
        }
        KeysCommand::Fingerprint { key } => writeln!(out, "{}", key.fingerprint())?,
    }
    Ok(())
}

/// Makes a private key and writes it to `path`, PKCS#8 (RFC 8410) in DER, for its owner's eyes only. Missing directories
/// are made.
pub fn generate(path: &Path) -> Result<Identity, KeyFileError> {
    let identity = Identity::from_seed(draw()?);
    write_new(path, identity.pkcs8())?;
    Ok(identity)
}

/// Makes a key for the members of a cast and writes it to `path`, as a line of text, for its owner's eyes only.
pub fn generate_shared(path: &Path) -> Result<CastKey, KeyFileError> {
    let key = CastKey::new(draw()?);
    write_new(path, format!("{}\n", key.to_text()).as_bytes())?;
    Ok(key)
}

fn draw() -> Result<[u8; 32], KeyFileError> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).map_err(|_| KeyFileError::NoRandomness)?;
    Ok(seed)
}

fn write_new(path: &Path, key: &[u8]) -> Result<(), KeyFileError> {
    let io = |doing, path: &Path, error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                ". Name a file of your own with --key, or for the systemd services run `sudo -u aquila aquila keys generate`"
            }
            _ => "",
        };
        KeyFileError::Io { doing, path: path.to_owned(), error, hint }
    };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.map_err(|error| io("make the directory", directory, error))?;
    }
    // `create_new` neither replaces a file nor follows a link to one.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyFileError::Exists(path.to_owned()),
        _ => io("write", path, error),
    })?;
    if let Err(error) = file.write_all(key).and_then(|()| file.sync_all()) {
        // Half a key is worse than none: it would not be replaced.
        let _ = fs::remove_file(path);
        return Err(io("write", path, error));
    }
    Ok(())
}

/// Reads the private key at `path`.
pub fn load(path: &Path) -> Result<Identity, KeyFileError> {
    let bytes = read_private(path, KeyFileError::Missing)?;
    Identity::from_pkcs8(&bytes).map_err(|error| KeyFileError::NotAKey { path: path.to_owned(), error })
}

/// Reads the shared key at `path`.
pub fn load_shared(path: &Path) -> Result<CastKey, KeyFileError> {
    let bytes = read_private(path, KeyFileError::NoShared)?;
    let key = String::from_utf8_lossy(&bytes).parse();
    key.map_err(|error| KeyFileError::NotShared { path: path.to_owned(), error })
}

/// Reads a file that nobody else may read.
fn read_private(path: &Path, missing: impl FnOnce(PathBuf) -> KeyFileError + Copy) -> Result<Vec<u8>, KeyFileError> {
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => missing(path.to_owned()),
        _ => KeyFileError::Io { doing: "read", path: path.to_owned(), error, hint: "" },
    };
    let mode = fs::metadata(path).map_err(io)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
    }
    fs::read(path).map_err(io)
}

/// Finds the key file by the same rules as `aquila air` and `aquila ground` do.
fn locate(args: KeyFileArgs, environment: &Environment) -> Result<PathBuf, KeyFileError> {
    if let Some(key) = args.key {
        return Ok(key);
    }
    let file = args.config.map_or_else(|| Ok(File::default()), |path| config::load(&path))?;
    let state = args.state.or(file.link.state).or_else(|| environment.state.clone());
    Ok(file.identity.key.map_or_else(|| config::key_file(state), Ok)?)
}

fn describe(identity: &Identity, path: &Path, out: &mut impl Write) -> io::Result<()> {
    let public = identity.public();
    writeln!(out, "public key   {public}")?;
    writeln!(out, "fingerprint  {}", public.fingerprint())?;
    writeln!(out, "private key  {} (keep it here)", path.display())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn a_generated_key_is_its_owners_and_can_be_shown() {
        let dir = TempDir::new("keys");
        let path = dir.join("new/directory/identity.key");
        let made = generate(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        assert_eq!(load(&path).unwrap().public(), made.public());

        let file = KeyFileArgs { key: Some(path), ..Default::default() };
        let mut out = Vec::new();
        run(KeysCommand::Show { file, public: true }, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("{}\n", made.public()));
    }

    #[test]
    fn a_key_is_never_replaced() {
        let dir = TempDir::new("keys");
        let path = dir.join("identity.key");
        let first = generate(&path).unwrap();
        let error = generate(&path).unwrap_err();
        assert!(matches!(error, KeyFileError::Exists(_)), "{error}");
        assert_eq!(load(&path).unwrap().public(), first.public());
    }

    #[test]
    fn a_key_that_others_may_read_is_refused() {
        let dir = TempDir::new("keys");
        let path = dir.join("identity.key");
        generate(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("640") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn missing_and_broken_keys_say_what_to_do() {
        let dir = TempDir::new("keys");
        let path = dir.join("identity.key");
        assert!(load(&path).unwrap_err().to_string().contains("aquila keys generate"));
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).unwrap().write_all(b"no").unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("PKCS#8"));
    }

    #[test]
    fn a_shared_key_is_its_owners_and_never_replaced() {
        let dir = TempDir::new("keys");
        let path = dir.join("fleet.key");
        assert!(load_shared(&path).unwrap_err().to_string().contains("aquila keys shared"));
        let made = generate_shared(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(load_shared(&path).unwrap(), made);
        assert!(matches!(generate_shared(&path), Err(KeyFileError::Exists(_))));
        let identity = dir.join("identity.key");
        generate(&identity).unwrap();
        assert!(load_shared(&identity).unwrap_err().to_string().contains("aqs1:"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(load_shared(&path).unwrap_err().to_string().contains("chmod 600"));
    }

    #[test]
    fn the_key_is_looked_for_where_the_link_would() {
        let dir = TempDir::new("keys");
        let config = dir.join("aquila.toml");
        let environment = Environment { state: Some("/state".into()), ..Environment::default() };
        let find = |args| locate(args, &environment).unwrap();
        assert_eq!(find(KeyFileArgs::default()), Path::new("/state/identity.key"));
        fs::write(&config, "[link]\nstate = '/elsewhere'").unwrap();
        let args = || KeyFileArgs { config: Some(config.clone()), ..Default::default() };
        assert_eq!(find(args()), Path::new("/elsewhere/identity.key"));
        assert_eq!(find(KeyFileArgs { state: Some("/s".into()), ..args() }), Path::new("/s/identity.key"));
        fs::write(&config, "[identity]\nkey = '/k'").unwrap();
        assert_eq!(find(args()), Path::new("/k"));
        assert!(locate(KeyFileArgs::default(), &Environment::default()).is_err());
    }
}
