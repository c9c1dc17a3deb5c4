//! The connections that were passed through when the program ended: kept, so that the next start can end them.

use std::io;
use std::path::{Path, PathBuf};

use aquila_proto::gateway::Former;

/// The file, and what is in it.
#[derive(Debug)]
pub(super) struct Formers {
    path: PathBuf,
    written: Vec<Former>,
    warned: bool,
}

impl Formers {
    /// A file, and what a former run left there. Lines that make no sense are skipped.
    pub fn open(path: &Path) -> (Self, Vec<Former>) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let formers: Vec<Former> = text.lines().filter_map(parse).collect();
        (Self { path: path.to_owned(), written: formers.clone(), warned: false }, formers)
    }

    /// Writes what there is now, if it is not that. It has to outlive us, not the machine: the kernels' connections end with
    /// theirs, and nobody waits for the disk.
    pub fn keep(&mut self, now: impl Iterator<Item = Former> + Clone) {
        if now.clone().eq(self.written.iter().copied()) {
            return;
        }
        self.written = now.collect();
        if let Err(error) = self.write()
            && !std::mem::replace(&mut self.warned, true)
        {
            tracing::warn!(%error, "cannot note which connections are passed through: after a restart they hang instead of ending");
        }
    }

    fn write(&self) -> io::Result<()> {
        let text: String = self.written.iter().map(show).collect();
        let new = self.path.with_extension("new");
        std::fs::write(&new, text)?;
        std::fs::rename(new, &self.path)
    }
}

fn show(former: &Former) -> String {
    let Former { kernel, own, numbers: [theirs, ours] } = former;
    format!("{kernel} {own} {theirs} {ours}\n")
}

fn parse(line: &str) -> Option<Former> {
    let mut words = line.split(' ');
    let mut next = || words.next();
    let (kernel, own) = (next()?.parse().ok()?, next()?.parse().ok()?);
    let numbers = [next()?.parse().ok()?, next()?.parse().ok()?];
    Some(Former { kernel, own, numbers }).filter(|former| former.kernel.is_ipv4() == former.own.is_ipv4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_there_after_a_restart() {
        let dir = std::env::temp_dir().join(format!("aquila-formers-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("passed-through");
        let (mut formers, none) = Formers::open(&path);
        assert_eq!(none, []);
        let former = |text: &str| parse(text).unwrap();
        let all = [former("10.0.0.1:5 10.0.0.2:6 7 4294967295"), former("[fd00::1]:5 [fd00::2]:6 0 1")];
        formers.keep(all.iter().copied());
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "garbage\n10.0.0.1:5 [fd00::2]:6 0 1\n")
            .unwrap();
        assert_eq!(Formers::open(&path).1, all);
        formers.keep(std::iter::empty());
        assert_eq!(Formers::open(&path).1, []);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
