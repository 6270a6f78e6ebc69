//! `onefold completions`, `onefold man`

use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;
use cli_support::Code;
use cli_support::output::{Output, count};
use serde::Serialize;

use crate::args::{Cli, Completions, Man as Args, ShellName};

#[derive(Serialize)]
struct Pages {
    message_type: &'static str,
    folder: String,
    pages: u64,
}

pub(crate) fn completions(args: &Completions, output: Output) -> Result<Code> {
    let shell = match args.shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
        ShellName::Elvish => Shell::Elvish,
        ShellName::PowerShell => Shell::PowerShell,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::described(), "onefold", &mut script);
    output.page(&String::from_utf8(script)?)?;
    Ok(Code::Success)
}

pub(crate) fn man(args: &Args, output: Output) -> Result<Code> {
    let clap = Cli::described();
    let Some(folder) = &args.folder else {
        output.page(&String::from_utf8(page(&clap)?)?)?;
        return Ok(Code::Success);
    };
    let shown = || folder.display().to_string();
    std::fs::create_dir_all(folder).with_context(shown)?;
    let pages = write_pages(&clap, folder)?;
    output.line(format!("wrote {} to {}", count(pages, "page", "pages"), shown()))?;
    output.object(&Pages {
        message_type: "man_pages",
        folder: shown(),
        pages,
    })?;
    Ok(Code::Success)
}

fn page(clap: &clap::Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(clap.clone()).render(&mut page)?;
    Ok(page)
}

/// Writes the pages of a command and of those below it. Returns how many they are.
fn write_pages(clap: &clap::Command, folder: &Path) -> Result<u64> {
    let file = folder.join(Man::new(clap.clone()).get_filename());
    std::fs::write(&file, page(clap)?).with_context(|| file.display().to_string())?;
    let below = clap.get_subcommands().filter(|below| !below.is_hide_set());
    // `help` has the names of all others below it.
    let below = below.filter(|below| below.get_name() != "help");
    below
        .map(|below| write_pages(below, folder))
        .try_fold(1, |sum, pages| Ok(sum + pages?))
}
