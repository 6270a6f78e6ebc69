//! Judges an ended command of any kind: its exit code, its output, whether it waited.

use super::commands::Ready;
use super::model::Effect;
use super::program::Ended;
use super::script::Verb;

/// The disturbances of a command besides its own signals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Befell {
    /// The disk was small and may have been full.
    pub(super) tight: bool,
    /// The storage's clock has jumped at some time.
    pub(super) jumped: bool,
    /// The clock jumped while the command ran, or the command has a clock of its own.
    pub(super) jumped_meanwhile: bool,
    /// Other commands ran at the same time.
    pub(super) rivals: bool,
    /// One of them should replace the password.
    pub(super) passwords: bool,
}

/// A broken rule: a word for its kind, and the details.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: &'static str,
    pub(super) what: String,
}

impl Fault {
    pub(super) fn new(kind: &'static str, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
        }
    }
}

impl From<(&'static str, String)> for Fault {
    fn from((kind, what): (&'static str, String)) -> Self {
        Self { kind, what }
    }
}

/// The rules for every command and every disturbance.
pub(super) fn always(ended: &Ended) -> Result<(), Fault> {
    if ended.err.contains("panicked at") || ended.err.contains("stack overflow") {
        return Err(Fault::new("panic", ended.err.clone()));
    }
    if ended.waited {
        return Err(Fault::new(
            "waits",
            "waits for who is gone, while nobody else runs on this host (B2)",
        ));
    }
    if ended.hung {
        return Err(Fault::new(
            "hangs",
            format!("no end after {:.0} s: {}", ended.seconds, ended.err),
        ));
    }
    if let Some(signal) = ended.signal {
        let sent = ended.shots.iter().any(|(_, shot)| shot.as_raw() == signal);
        if !sent {
            return Err(Fault::new(
                "died",
                format!("by signal {signal}, which nobody sent: {}", ended.err),
            ));
        }
        return Ok(());
    }
    if !matches!(ended.code, Some(0 | 1 | 3 | 12 | 130)) {
        return Err(Fault::new(
            "exit code",
            format!("{:?}: {}", ended.code, ended.err),
        ));
    }
    Ok(())
}

/// Whether the command may have ended in this way.
pub(super) fn judge(ready: &Ready, ended: &Ended, befell: Befell) -> Result<(), Fault> {
    always(ended)?;
    let Some(code) = ended.code else {
        return Ok(());
    };
    let said = || {
        Fault::new(
            "exit code",
            format!("{code} of {:?}: {}", ready.verb, ended.err.trim()),
        )
    };
    match code {
        0 => Ok(()),
        130 if ended.was_shot() => words(ready.verb, ended),
        12 if befell.passwords => Ok(()),
        1 if befell.tight && !excused(ready, befell) => {
            let text = ended.err.to_lowercase();
            // After a full disk the message must say why in its own words.
            let says_why = ["space", "full", "room"].iter().any(|word| text.contains(word));
            if says_why || ready.verb == Verb::Prune {
                Ok(())
            } else {
                Err(said())
            }
        }
        1 if excused(ready, befell) => Ok(()),
        _ => Err(said()),
    }
}

/// Whether the command may fail because of other commands or clocks.
fn excused(ready: &Ready, befell: Befell) -> bool {
    let by_rivals = match ready.verb {
        Verb::Backup | Verb::Check | Verb::Index => false,
        // Another command may forget their backups meanwhile.
        Verb::Restore | Verb::Dump | Verb::Look => befell.rivals,
        Verb::Forget | Verb::Prune | Verb::Optimize | Verb::Hold | Verb::Tag | Verb::Key | Verb::Series => {
            befell.rivals
        }
    };
    let by_clocks = befell.jumped_meanwhile || (befell.jumped && ready.by_clock);
    // Naming a held backup is an error.
    let by_hold = ready.verb == Verb::Forget && matches!(ready.effect, Effect::ForgetIds(_));
    by_rivals || by_clocks || by_hold
}

/// The message of an interrupted command must say what was interrupted.
fn words(verb: Verb, ended: &Ended) -> Result<(), Fault> {
    let restores = matches!(verb, Verb::Restore | Verb::Dump);
    if !restores && ended.err.contains("restored") {
        let what = format!(
            "{verb:?}, interrupted, speaks of restoring (B9): {}",
            ended.err.trim()
        );
        return Err(Fault::new("words", what));
    }
    Ok(())
}
