//! `onefold completions`, `onefold man`

mod guide;

use std::io::Write;
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

/// The page of a command: what clap knows, and the guide's text for readers of the pages alone.
fn page(clap: &clap::Command) -> Result<Vec<u8>> {
    let man = Man::new(clap.clone()).source(concat!("onefold ", env!("CARGO_PKG_VERSION")));
    let name = clap.get_bin_name().unwrap_or_else(|| clap.get_name());
    let (guide, end) = guide::of(name);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.write_all(synopsis(clap).as_bytes())?;
    man.render_description_section(&mut page)?;
    page.write_all(guide.as_bytes())?;
    man.render_options_section(&mut page)?;
    if clap.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    page.write_all(end.as_bytes())?;
    if clap.get_version().is_some() {
        man.render_version_section(&mut page)?;
    }
    Ok(page)
}

/// How the command is used, as `--help` says it: the list of all options follows in the page.
fn synopsis(clap: &clap::Command) -> String {
    let usage = clap.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let lines: Vec<&str> = usage.lines().map(str::trim).collect();
    guide::roff(&format!("# SYNOPSIS\n{}\n", lines.join("\n\n")))
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
