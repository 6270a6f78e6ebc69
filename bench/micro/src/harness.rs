//! Cases that are compared, measured in turn on one core, so that what disturbs one disturbs all.
//! The time is the thread's on the processor: what else runs on the core is not in it, but what it
//! did to caches and clocks is.

use std::hint::black_box;
use std::time::Duration;

/// The least that a case runs each time its turn comes: long beside the clock, short beside a
/// disturbance.
const TURN: Duration = Duration::from_millis(25);

/// What a case is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of input.
    Bytes,
    /// Calls, look-ups.
    Operations,
}

/// One thing to measure.
pub struct Case<'a> {
    name: String,
    /// How many bytes or operations a call does.
    count: u64,
    unit: Unit,
    run: Box<dyn FnMut() -> u64 + 'a>,
}

impl<'a> Case<'a> {
    pub fn bytes(name: impl Into<String>, bytes: usize, run: impl FnMut() -> u64 + 'a) -> Self {
        Self::new(name, bytes, Unit::Bytes, run)
    }

    pub fn operations(name: impl Into<String>, count: usize, run: impl FnMut() -> u64 + 'a) -> Self {
        Self::new(name, count, Unit::Operations, run)
    }

    fn new(name: impl Into<String>, count: usize, unit: Unit, run: impl FnMut() -> u64 + 'a) -> Self {
        Self {
            name: name.into(),
            count: count as u64,
            unit,
            run: Box::new(run),
        }
    }
}

/// What was asked for on the command line.
#[derive(Debug, Clone)]
pub struct Options {
    pub rounds: usize,
    pub json: bool,
    /// Only stages whose name has this.
    pub only: Option<String>,
}

/// Measures the cases of a stage in turn and prints them. `note` says what they are about.
pub fn compare(options: &Options, stage: &str, note: &str, mut cases: Vec<Case<'_>>) {
    let calls: Vec<u32> = cases.iter_mut().map(calls_a_turn).collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
    for _ in 0..options.rounds {
        for ((case, &calls), times) in cases.iter_mut().zip(&calls).zip(&mut times) {
            let begin = on_processor();
            for _ in 0..calls {
                black_box((case.run)());
            }
            let nanos = (on_processor() - begin).as_secs_f64() * 1e9;
            times.push(nanos / f64::from(calls) / case.count as f64);
        }
    }
    if !options.json {
        println!("{stage}: {note}");
    }
    for (case, mut times) in cases.iter().zip(times) {
        times.sort_unstable_by(f64::total_cmp);
        let (median, best) = (times[times.len() / 2], times[0]);
        let Case { name, unit, .. } = case;
        if options.json {
            println!(
                "{{\"stage\":\"{stage}\",\"case\":\"{name}\",\"unit\":\"{}\",\"ns_median\":{median:.5},\"ns_best\":{best:.5}}}",
                if *unit == Unit::Bytes { "byte" } else { "operation" },
            );
        } else if *unit == Unit::Bytes {
            println!(
                "  {name:<34} {:>8.2} GB/s  {median:>8.4} ns/B  (best {best:.4})",
                1.0 / median
            );
        } else {
            println!(
                "  {name:<34} {:>8.3} M/s   {median:>8.1} ns    (best {best:.1})",
                1e3 / median
            );
        }
    }
}

/// Warms a case up and finds how often to call it.
fn calls_a_turn(case: &mut Case<'_>) -> u32 {
    black_box((case.run)());
    let begin = on_processor();
    black_box((case.run)());
    let once = (on_processor() - begin).max(Duration::from_nanos(50));
    u32::try_from(TURN.as_nanos().div_ceil(once.as_nanos()))
        .unwrap_or(u32::MAX)
        .max(1)
}

/// How long this thread has run.
fn on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec.cast_unsigned() as u32)
}

/// Keeps this thread on one core.
pub fn pin(core: usize) -> std::io::Result<()> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    Ok(rustix::thread::sched_setaffinity(None, &cores)?)
}
