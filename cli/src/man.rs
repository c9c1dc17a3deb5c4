//! `aquila man` and `aquila completions`: made from the command line's own description.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Cli;

/// Writes a page for each command to `directory`, which is made if missing, or the main page to `out`.
pub fn pages(directory: Option<&Path>, out: &mut impl Write) -> io::Result<()> {
    match directory {
        Some(directory) => {
            std::fs::create_dir_all(directory)?;
            clap_mangen::generate_to(Cli::command(), directory)
        }
        None => Man::new(Cli::command()).render(out),
    }
}

/// Writes a completion script for `shell` to `out`.
pub fn completions(shell: Shell, out: &mut impl Write) {
    clap_complete::generate(shell, &mut Cli::command(), "aquila", out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn there_is_a_page_for_each_command() {
        let dir = TempDir::new("man");
        pages(Some(&dir.join("man1")), &mut Vec::new()).unwrap();
        for name in [
            "aquila.1",
            "aquila-air.1",
            "aquila-ground.1",
            "aquila-keys-generate.1",
            "aquila-check.1",
            "aquila-plan-links.1",
            "aquila-plan-flight.1",
        ] {
            let page = std::fs::read_to_string(dir.join("man1").join(name)).unwrap();
            assert!(page.contains(".TH"), "{name}");
        }
        let mut page = Vec::new();
        pages(None, &mut page).unwrap();
        assert!(String::from_utf8(page).unwrap().contains("commands always get through"));
    }

    #[test]
    fn completions_know_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            completions(shell, &mut script);
            assert!(String::from_utf8(script).unwrap().contains("ground"), "{shell}");
        }
    }
}
