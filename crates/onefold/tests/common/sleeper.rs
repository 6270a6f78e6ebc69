//! A process that completes another one's committed rewrite, and sleeps: it has listed the rewrite,
//! and has not looked at its targets yet.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use format::names;
use onefold::{Error, Monitor, OptimizeReport, OptimizeRequest, SeriesId};

use super::{Asked, Process};

type Completing = JoinHandle<Result<OptimizeReport, Error>>;

pub struct Sleeper {
    wake: Sender<()>,
    completing: Arc<Mutex<Option<Completing>>>,
}

impl Sleeper {
    /// Begins when the maker is about to put the first revision. From then on it sleeps, before it
    /// looks at backups of this series. Its own rewrites would be of `own`.
    pub fn beside(maker: &Process, completer: Process, series: SeriesId, own: SeriesId) -> Self {
        let folder = names::backups_folder(series);
        let ((asleep, is_asleep), (wake, is_woken)) = (channel(), channel());
        let is_list = move |asked, listed: &str| asked == Asked::List && listed == folder;
        completer.watched.set_once_at(is_list, move || {
            asleep.send(()).unwrap();
            is_woken.recv().unwrap();
        });
        let completing = Arc::new(Mutex::new(None));
        let begun = Arc::clone(&completing);
        let complete = move || {
            let request = OptimizeRequest::default().series(Some(own));
            completer.open().optimize(&request, &Monitor::default())
        };
        let mut complete = Some(complete);
        maker.watched.set_before(move |asked, name| {
            let is_revision = asked == Asked::Put && name.starts_with("backups/") && name.ends_with(".1");
            if let Some(complete) = complete.take_if(|_| is_revision) {
                *begun.lock().unwrap() = Some(thread::spawn(complete));
                is_asleep.recv().unwrap();
            }
        });
        Self { wake, completing }
    }

    /// Wakes it, and waits for its end.
    pub fn wake(self) -> OptimizeReport {
        self.wake.send(()).unwrap();
        let completing = self.completing.lock().unwrap().take();
        let report = completing.expect("it has begun").join().unwrap().unwrap();
        assert!(
            report.failed.is_empty() && report.backups.is_empty(),
            "{report:?}"
        );
        report
    }
}
