//! Figure 3: several hosts at once, each with the same load, with one duplicates index (D3, D9).
//!
//! Hosts are processes of the laboratory's program, or threads if the caller names no program.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Barrier};

use ddi::{FjallIndex, FjallOptions};

use super::bed::{Folder, POOL};
use super::far_index::IndexService;
use super::host::{self, HostResult, HostSettings, Operations, READY};
use super::{Scale, Setting};
use crate::error::LabError;
use crate::reproduce::figures::{mib, number, share};
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

const READS_PER_S: f64 = 300.0;
pub(super) const WRITES_PER_S: f64 = 150.0;
pub(super) const FINDER_BLOCKS_PER_S: u64 = 100;

/// One kind of operations of a host.
type OfHost = fn(&HostResult) -> Operations;

/// All hosts of one number of hosts.
struct Together {
    hosts: u16,
    results: Vec<HostResult>,
    operations: u64,
    batches: u64,
}

impl Together {
    fn sum(&self, of: impl Fn(&HostResult) -> f64) -> f64 {
        self.results.iter().map(of).sum()
    }

    fn mean(&self, of: impl Fn(&HostResult) -> f64) -> f64 {
        self.sum(of) / f64::from(self.hosts)
    }

    fn most(&self, of: impl Fn(&HostResult) -> f64) -> f64 {
        self.results.iter().map(of).fold(0.0, f64::max)
    }

    fn blocks(&self, of: impl Fn(&HostResult) -> u64) -> u64 {
        self.results.iter().map(of).sum()
    }
}

pub(super) fn run(run: &mut Run<'_>, setting: &Setting<'_>) -> Result<(), LabError> {
    let scale = &setting.scale;
    let mut all = Vec::new();
    for hosts in &scale.hosts {
        run.progress.begin(format!("figure 3, {hosts} hosts"));
        run.progress.advance(0)?;
        all.push(together(run.folder, setting, *hosts)?);
    }
    run.report(Experiment {
        name: "figure-3".to_owned(),
        title: "figure 3: several hosts with one duplicates index".to_owned(),
        seeds: vec!["D2", "D3", "D10", "D11"],
        setup: format!(
            "Each host is a {} with a pool and a volume of {} MiB, filled and examined before; {READS_PER_S} reads/s \
             and {WRITES_PER_S} writes/s for {} s; the finder examines {FINDER_BLOCKS_PER_S} blocks/s at most. It \
             examines a block for the first time in the third iteration after a write, and the collector shares \
             its limit. The finders' rate is that of their own part of the iterations, pauses included, beside the \
             load and after it; the collector's part is left out. A latency is the time from an operation's start to its end, its flush included. All hosts and the index are on \
             one machine with {} cores and one disk. {}",
            if setting.options.host_program.is_some() { "process" } else { "thread" },
            mib(scale.host_bytes),
            scale.load_3.as_secs_f64(),
            crate::reproduce::figures::cores(),
            setting.load_words(scale.interval_3_s)
        ),
        rows: rows(&all),
        plots: plots(&all),
    })
}

fn together(folder: &Path, setting: &Setting<'_>, hosts: u16) -> Result<Together, LabError> {
    let folder = Folder::create(folder.join("hosts"))?;
    let index = FjallIndex::create(&folder.0.join("index"), POOL, FjallOptions::default())?;
    // The system allows some hundred bytes for a socket's path.
    let socket = folder.0.join("s");
    let service = IndexService::start(&socket, Arc::new(index))?;
    let settings = |number: u16| settings_of(&folder.0, &socket, setting, number);
    let results = match setting.options.host_program {
        Some(program) => processes(program, hosts, settings)?,
        None => threads(hosts, settings)?,
    };
    let (operations, batches) = service.applied();
    Ok(Together {
        hosts,
        results,
        operations,
        batches,
    })
}

fn settings_of(folder: &Path, socket: &Path, setting: &Setting<'_>, number: u16) -> HostSettings {
    let scale: &Scale = &setting.scale;
    HostSettings {
        number,
        folder: folder.join(number.to_string()),
        socket: socket.to_owned(),
        volume_bytes: scale.host_bytes,
        load: scale.load_3,
        interval_s: scale.interval_3_s,
        finder_blocks_per_s: FINDER_BLOCKS_PER_S,
        reads_per_s: READS_PER_S,
        writes_per_s: WRITES_PER_S,
        distribution: setting.options.distribution.map(Path::to_owned),
        access: setting.traffic.access,
    }
}

fn threads(hosts: u16, settings: impl Fn(u16) -> HostSettings) -> Result<Vec<HostResult>, LabError> {
    let barrier = Barrier::new(hosts.into());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..hosts)
            .map(|number| {
                let (settings, barrier) = (settings(number), &barrier);
                scope.spawn(move || {
                    let mut is_counted = false;
                    let result = host::run(&settings, &mut || {
                        is_counted = true;
                        barrier.wait();
                        Ok(())
                    });
                    if !is_counted {
                        // The others must not wait for a host that failed.
                        barrier.wait();
                    }
                    result
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// A process of a host. It is ended when this is dropped.
pub(super) struct HostProcess {
    number: u16,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl HostProcess {
    pub(super) fn start(program: &Path, settings: &HostSettings) -> Result<Self, LabError> {
        let failed = |source| LabError::io(&program.display().to_string(), source);
        // JSON has no other paths.
        let words = serde_json::to_string(settings).map_err(|_| {
            LabError::settings(
                "hosts need paths that are UTF-8: those of the output and of the distribution".to_owned(),
            )
        })?;
        let mut child = Command::new(program)
            .arg("reproduce-host")
            .arg(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let input = child.stdin.take().expect("it is a pipe");
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        Ok(Self {
            number: settings.number,
            child,
            input,
            output,
        })
    }

    fn line(&mut self) -> Result<String, LabError> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line);
        match read.map_err(|source| LabError::io("the output of a host", source))? {
            0 => Err(self.failed("it ended; its message is on standard error")),
            _ => Ok(line.trim().to_owned()),
        }
    }

    fn failed(&self, why: impl Into<String>) -> LabError {
        LabError::Host {
            number: self.number,
            why: why.into(),
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        // A process that has ended cannot be ended, and needs not be.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn processes(
    program: &Path,
    hosts: u16,
    settings: impl Fn(u16) -> HostSettings,
) -> Result<Vec<HostResult>, LabError> {
    let started = (0..hosts).map(|number| HostProcess::start(program, &settings(number)));
    let mut all: Vec<HostProcess> = started.collect::<Result<_, _>>()?;
    for host in &mut all {
        let said = host.line()?;
        if said != READY {
            return Err(host.failed(format!("it said {said:?} before the run")));
        }
    }
    for host in &mut all {
        let told = host.input.write_all(b"go\n");
        told.map_err(|source| LabError::io("the input of a host", source))?;
    }
    let results = all.iter_mut().map(|host| {
        let said = host.line()?;
        serde_json::from_str(&said).map_err(|error| host.failed(format!("its result: {error}")))
    });
    results.collect()
}

fn rows(all: &[Together]) -> Vec<Row> {
    let mut rows = Vec::new();
    let kinds: [(&str, f64, OfHost); 2] = [
        ("reads", READS_PER_S, |host| host.reads),
        ("writes", WRITES_PER_S, |host| host.writes),
    ];
    for one in all {
        let hosts = f64::from(one.hosts);
        for (name, per_host, of) in kinds {
            let (wanted, got) = (per_host * hosts, one.sum(|host| of(host).per_s));
            rows.push(
                Row::new(
                    format!(
                        "{name}/s, {} hosts: at least 95 % of what is asked for",
                        one.hosts
                    ),
                    format!("{wanted}"),
                    format!(
                        "{got:.0}; latency {:.3} ms, 99 % within {:.3} ms on the slowest host",
                        one.mean(|host| of(host).mean_ms),
                        one.most(|host| of(host).p99_ms)
                    ),
                )
                .value(got)
                .met(got >= 0.95 * wanted, "one machine is all hosts"),
            );
        }
        let wanted = number(FINDER_BLOCKS_PER_S) * hosts;
        let got = one.sum(|host| host.finder_blocks_per_s);
        let left = one.blocks(|host| host.backlog_blocks);
        let beside = one.blocks(|host| host.examined_beside);
        let after = one.blocks(|host| host.examined_after);
        rows.push(
            Row::new(
                format!(
                    "blocks/s of all finders while they examine, {} hosts: at least 90 % of the limit",
                    one.hosts
                ),
                format!("{wanted}"),
                format!(
                    "{got:.0}; {:.1} operations in a batch of the index; {left} blocks left",
                    share(one.operations, one.batches)
                ),
            )
            .value(got)
            .met(got >= 0.9 * wanted, "one machine is all hosts"),
        );
        rows.push(
            Row::new(
                format!(
                    "blocks that the finders examined beside the load, {} hosts",
                    one.hosts
                ),
                "not measured",
                format!("{beside}; {after} after it"),
            )
            .value(number(beside)),
        );
    }
    rows
}

fn plots(all: &[Together]) -> Vec<Plot> {
    let points = |of: &dyn Fn(&Together) -> f64| -> Vec<(f64, f64)> {
        all.iter().map(|one| (f64::from(one.hosts), of(one))).collect()
    };
    let plot = |name: &str, title: &str, y: &str, series: Vec<Series>| Plot {
        name: format!("figure-3-{name}"),
        title: format!("Figure 3: {title}"),
        subtitle: format!("{READS_PER_S} reads/s and {WRITES_PER_S} flushed writes/s a host, one machine"),
        x: Axis::linear("hosts"),
        y: Axis::linear(y),
        series,
    };
    vec![
        plot(
            "throughput",
            "throughput of all hosts",
            "operations/s",
            vec![
                Series::new("reads", points(&|one| one.sum(|host| host.reads.per_s))),
                Series::new("writes", points(&|one| one.sum(|host| host.writes.per_s))),
            ],
        ),
        plot(
            "latency",
            "mean latency",
            "latency, ms",
            vec![
                Series::new("reads", points(&|one| one.mean(|host| host.reads.mean_ms))),
                Series::new("writes", points(&|one| one.mean(|host| host.writes.mean_ms))),
            ],
        ),
        plot(
            "finder",
            "throughput of all finders",
            "blocks/s",
            vec![Series::new(
                "finders",
                points(&|one| one.sum(|host| host.finder_blocks_per_s)),
            )],
        ),
    ]
}
