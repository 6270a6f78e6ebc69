//! Sequences of steps beside a plain map.

use std::collections::BTreeMap;

use super::*;

/// One step. Contents, blocks, clients and buckets are small numbers, so that they often meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The next batch of a client; then, if `is_repeated`, the same one again.
    Batch {
        /// The bucket.
        bucket: u8,
        /// The client.
        client: u8,
        /// The operations.
        operations: Vec<StepOperation>,
        /// Whether the answer is lost.
        is_repeated: bool,
    },
    /// A batch whose sequence is the client's next one and so many more, which is refused.
    Ahead {
        /// The client, in bucket 0.
        client: u8,
        /// How many batches it skips, besides one.
        by: u8,
    },
    /// The client is forgotten.
    Forget {
        /// The client.
        client: u8,
    },
    /// The index is closed and opened.
    Reopen,
    /// The index is rebuilt from its own rows and clients.
    Rebuild,
}

/// One operation of a step's batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepOperation {
    /// Whether it increments.
    pub is_increment: bool,
    /// The content.
    pub content: u8,
    /// The block.
    pub block: u8,
    /// The count, at least 1.
    pub count: u8,
}

impl StepOperation {
    fn operation(self) -> Operation {
        let (number, at, count) = (self.content.into(), self.block.into(), self.count.into());
        if self.is_increment {
            increment(number, at, count)
        } else {
            decrement(number, at, count)
        }
    }
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<(u8, u8), (u64, u64)>,
    clients: BTreeMap<(u8, u8), u64>,
}

impl Model {
    fn outcome(&mut self, to: u8, operation: StepOperation) -> Outcome {
        let StepOperation { content, count, .. } = operation;
        let (at, count) = (u64::from(operation.block), u64::from(count));
        let known = self.rows.get(&(to, content)).copied();
        let (row, outcome) = match (known, operation.is_increment) {
            (None, true) => (Some((at, count)), Outcome::Registered),
            (Some((own, references)), true) => (
                Some((own, references + count)),
                Outcome::Hit { block: block(own) },
            ),
            (Some((own, references)), false) if own == at && references > count => {
                let rest = references - count;
                (Some((own, rest)), Outcome::Remaining(rest))
            }
            (Some((own, references)), false) if own == at && references == count => (None, Outcome::Freed),
            (other, false) => (other, Outcome::Unknown),
        };
        match row {
            Some(row) => self.rows.insert((to, content), row),
            None => self.rows.remove(&(to, content)),
        };
        outcome
    }

    fn rows_of(&self, to: u8) -> Vec<Row> {
        let own = self.rows.iter().filter(|((of, _), _)| *of == to);
        sorted(
            own.map(|((_, content), (at, references))| row((*content).into(), *at, *references))
                .collect(),
        )
    }

    #[track_caller]
    fn compare(&self, index: &dyn DuplicatesIndex) {
        for to in 0..=BUCKET_MAX {
            assert_eq!(rows_of(index, bucket(to.into())), self.rows_of(to));
            let own = self.clients.keys().filter(|(of, _)| *of == to);
            let own: Vec<VolumeId> = own.map(|(_, client)| volume((*client).into())).collect();
            let clients = index.clients(bucket(to.into())).expect("readable");
            assert_eq!(clients, own);
            for client in 0..=CLIENT_MAX {
                let last = index
                    .client(bucket(to.into()), volume(client.into()))
                    .expect("readable");
                assert_eq!(
                    last.map(BatchSequence::get),
                    self.clients.get(&(to, client)).copied()
                );
            }
        }
        let statistics = index.statistics().expect("readable");
        assert_eq!(statistics.rows(), self.rows.len() as u64);
        assert_eq!(
            statistics.references(),
            self.rows.values().map(|row| row.1).sum::<u64>()
        );
    }
}

const BUCKET_MAX: u8 = 2;
const CLIENT_MAX: u8 = 3;

/// Runs the steps on a new index, and compares it with a map. Buckets are at most 2, and clients at
/// most 3.
///
/// # Panics
/// If the index differs from the map.
pub fn check_steps(maker: &dyn Maker, steps: &[Step]) {
    let mut index = maker.create();
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Batch {
                bucket: to,
                client,
                operations,
                is_repeated,
            } => {
                let last = model.clients.entry((*to, *client)).or_default();
                *last += 1;
                let number = sequence(*last);
                let sent: Vec<_> = operations.iter().map(|operation| operation.operation()).collect();
                let send = || index.apply(bucket((*to).into()), volume((*client).into()), number, &sent);
                let outcomes = send().expect("a batch in turn is applied");
                let wanted: Vec<_> = operations.iter().map(|one| model.outcome(*to, *one)).collect();
                assert_eq!(outcomes, wanted, "{step:?}");
                if *is_repeated {
                    assert_eq!(send().expect("a batch may be repeated"), wanted);
                }
            }
            Step::Ahead { client, by } => {
                let last = model.clients.get(&(0, *client)).copied().unwrap_or_default();
                let number = sequence(last + 2 + u64::from(*by));
                let result = index.apply(Bucket::FIRST, volume((*client).into()), number, &[]);
                let error = refused(result);
                assert!(matches!(error, DdiError::SequenceAhead { .. }), "{error}");
            }
            Step::Forget { client } => {
                index
                    .forget_client(volume((*client).into()))
                    .expect("a client can be forgotten");
                model.clients.retain(|(_, known), _| known != client);
            }
            Step::Reopen => {
                index = maker.reopen(index);
                model.compare(&*index);
            }
            Step::Rebuild => rebuild(&*index, &model),
        }
    }
    model.compare(&*index);
}

fn rebuild(index: &dyn DuplicatesIndex, model: &Model) {
    let mut rebuild = index.rebuild().expect("a rebuild begins");
    for to in 0..=BUCKET_MAX {
        rebuild
            .load(bucket(to.into()), &model.rows_of(to))
            .expect("rows are loaded");
    }
    let positions: Vec<_> = model
        .clients
        .iter()
        .map(|((to, client), last)| crate::ClientPosition {
            bucket: bucket((*to).into()),
            client: volume((*client).into()),
            last: sequence(*last),
        })
        .collect();
    rebuild.finish(&positions).expect("the rebuild ends");
}

/// Steps from a seed: mostly batches.
#[must_use]
pub fn random_steps(seed: u64, count: usize) -> Vec<Step> {
    let mut state = seed;
    let mut draw = |below: u8| {
        state = state.wrapping_add(1);
        u8::try_from(mixed(state) % u64::from(below)).expect("less than a byte")
    };
    let step = |_| match draw(20) {
        0 => Step::Reopen,
        1 => Step::Rebuild,
        2 => Step::Ahead {
            client: draw(CLIENT_MAX + 1),
            by: draw(3),
        },
        3 => Step::Forget {
            client: draw(CLIENT_MAX + 1),
        },
        _ => Step::Batch {
            bucket: draw(BUCKET_MAX + 1),
            client: draw(CLIENT_MAX + 1),
            operations: (0..draw(30))
                .map(|_| StepOperation {
                    is_increment: draw(2) == 0,
                    content: draw(12),
                    block: draw(3),
                    count: draw(3) + 1,
                })
                .collect(),
            is_repeated: draw(3) == 0,
        },
    };
    (0..count).map(step).collect()
}
