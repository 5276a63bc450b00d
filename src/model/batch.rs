//! Ragged batches: sequences packed without padding, shared prompts once, cut into shards.

use super::fused::attention::Segment;
use super::fused::token_logprob::Target;
use anyhow::{Result, ensure};
use std::collections::HashMap;

/// Rows a shard aims at: few enough that its activations stay near the core that makes them. Half as many
/// were measured to make scoring a tenth faster and training a tenth slower.
const SHARD_ROWS: usize = 192;

/// What is wanted of each sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Every token of the response, predicted from what precedes it.
    Response,
    /// The last token's hidden state.
    Last,
    /// Every token's hidden state.
    Every,
}

/// A batch of (prompt, response) pairs, ready for the network.
///
/// Equal prompts are computed once per shard. How it is cut depends on the pairs alone, never on the
/// number of threads.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) shards: Vec<Shard>,
    read: Read,
    lengths: Vec<usize>,
}

/// The part of a batch that one thread computes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shard {
    pub tokens: Vec<u32>,       // [N]
    pub positions: Vec<u32>,    // [N]
    pub segments: Vec<Segment>, // Cover the N rows in order.
    pub rows: Vec<usize>,       // Rows that anything is read from, ascending.
    pub targets: Vec<Target>,   // Their `row` counts within `rows`.
    pub slots: Vec<usize>,      // Where in the batch's result each target goes.
}

impl Batch {
    /// Packs `responses[b]` behind `prompts[b]`.
    ///
    /// # Errors
    /// If the two differ in number or a prompt is empty: the first token of a response needs
    /// something to be predicted from.
    pub fn new<P: AsRef<[u32]>, R: AsRef<[u32]>>(prompts: &[P], responses: &[R], read: Read) -> Result<Self> {
        ensure!(
            prompts.len() == responses.len(),
            "one response per prompt: got {} prompts and {} responses",
            prompts.len(),
            responses.len()
        );
        let (mut lengths, mut starts, mut total) = (Vec::new(), Vec::new(), 0);
        for (b, (prompt, response)) in prompts.iter().zip(responses).enumerate() {
            let (prompt, response) = (prompt.as_ref().len(), response.as_ref().len());
            ensure!(prompt > 0, "prompt {b} is empty: it needs at least a start token");
            let length = match read {
                Read::Response => response,
                Read::Last => 1,
                Read::Every => prompt + response,
            };
            starts.push(total);
            lengths.push(length);
            total += length;
        }

        let units = units(prompts, responses, read);
        let rows: usize = units.iter().map(|unit| unit.rows).sum();
        let share = rows.div_ceil((rows / SHARD_ROWS).max(1));
        let mut shards = Vec::new();
        let mut shard = Shard::default();
        for unit in units {
            shard.push(&unit, responses, read, &starts);
            if shard.tokens.len() + unit.rows / 2 >= share {
                shards.push(std::mem::take(&mut shard).indexed());
            }
        }
        if !shard.tokens.is_empty() {
            shards.push(shard.indexed());
        }
        Ok(Self { shards, read, lengths })
    }

    /// How many results each pair has: its response's tokens for [`Read::Response`].
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// What the batch reads.
    pub fn read(&self) -> Read {
        self.read
    }

    /// Number of results, all pairs together.
    pub fn len(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Whether nothing is read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens computed; shared prompts count once.
    pub fn rows(&self) -> usize {
        self.shards.iter().map(|shard| shard.tokens.len()).sum()
    }

    /// Checks every token and length against a model.
    pub(crate) fn check(&self, vocab_size: usize, n_positions: usize) -> Result<()> {
        for shard in &self.shards {
            let tokens = shard.tokens.iter().chain(shard.targets.iter().map(|t| &t.token));
            for &token in tokens {
                ensure!(
                    (token as usize) < vocab_size,
                    "token {token} is outside the vocabulary of {vocab_size}"
                );
            }
            let length = shard.segments.iter().map(Segment::keys).max().unwrap_or(0);
            ensure!(
                length <= n_positions,
                "a sequence of {length} tokens is longer than the model's {n_positions} positions"
            );
        }
        Ok(())
    }
}

/// A prompt and some of the responses to it.
struct Unit<'a> {
    prompt: &'a [u32],
    responses: Vec<usize>,
    rows: usize,
}

/// Groups pairs by prompt, in order of first appearance, and splits groups too large for a shard.
fn units<'a, P: AsRef<[u32]>, R: AsRef<[u32]>>(
    prompts: &'a [P],
    responses: &[R],
    read: Read,
) -> Vec<Unit<'a>> {
    let mut units: Vec<Unit> = Vec::new();
    let mut open: HashMap<&[u32], usize> = HashMap::new();
    for (b, (prompt, response)) in prompts.iter().zip(responses).enumerate() {
        let prompt = prompt.as_ref();
        let rows = inputs(response.as_ref(), read).len();
        let unit = *open.entry(prompt).or_insert(units.len());
        match units.get_mut(unit) {
            Some(unit) if unit.rows + rows <= SHARD_ROWS => {
                unit.responses.push(b);
                unit.rows += rows;
            }
            _ => {
                open.insert(prompt, units.len());
                units.push(Unit { prompt, responses: vec![b], rows: prompt.len() + rows });
            }
        }
    }
    units
}

/// The tokens of a response that are computed: nothing is predicted from its last one.
fn inputs(response: &[u32], read: Read) -> &[u32] {
    match read {
        Read::Response => &response[..response.len().saturating_sub(1)],
        Read::Last | Read::Every => response,
    }
}

impl Shard {
    fn push<R: AsRef<[u32]>>(&mut self, unit: &Unit, responses: &[R], read: Read, starts: &[usize]) {
        let prefix = self.segment(unit.prompt, 0..0);
        for &b in &unit.responses {
            let response = responses[b].as_ref();
            let rows = self.segment(inputs(response, read), prefix.clone());
            let all = prefix.clone().chain(rows);
            match read {
                Read::Response => {
                    for (j, (row, &token)) in all.skip(prefix.len() - 1).zip(response).enumerate() {
                        self.read(row, token, starts[b] + j);
                    }
                }
                Read::Last => self.read(all.last().unwrap_or(prefix.start), 0, starts[b]),
                Read::Every => {
                    for (j, row) in all.enumerate() {
                        self.read(row, 0, starts[b] + j);
                    }
                }
            }
        }
    }

    fn segment(&mut self, tokens: &[u32], prefix: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let rows = self.tokens.len()..self.tokens.len() + tokens.len();
        let first = prefix.len();
        self.positions.extend((first..first + tokens.len()).map(|p| p as u32));
        self.tokens.extend(tokens);
        if !tokens.is_empty() {
            self.segments.push(Segment { rows: rows.clone(), prefix });
        }
        rows
    }

    fn read(&mut self, row: usize, token: u32, slot: usize) {
        self.targets.push(Target { row, token });
        self.slots.push(slot);
    }

    /// Lists the rows that are read and lets the targets count within that list.
    fn indexed(mut self) -> Self {
        self.rows = self.targets.iter().map(|target| target.row).collect();
        self.rows.sort_unstable();
        self.rows.dedup();
        for target in &mut self.targets {
            target.row = self.rows.partition_point(|&row| row < target.row);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_computes_its_prompt_once_and_no_last_token() {
        let prompts = [[1, 5, 6]; 4];
        let responses: [&[u32]; 4] = [&[7, 8, 2], &[2], &[], &[9, 2]];
        let batch = Batch::new(&prompts, &responses, Read::Response).unwrap();
        assert_eq!(batch.rows(), 3 + 2 + 1);
        assert_eq!(batch.lengths(), [3, 1, 0, 2]);
        let shard = &batch.shards[0];
        assert_eq!(shard.tokens, [1, 5, 6, 7, 8, 9]);
        assert_eq!(shard.positions, [0, 1, 2, 3, 4, 3]);
        assert_eq!(shard.rows, [2, 3, 4, 5]);
        assert_eq!(shard.slots, [0, 1, 2, 3, 4, 5]);
        let read: Vec<_> = shard.targets.iter().map(|t| (t.row, t.token)).collect();
        assert_eq!(read, [(0, 7), (1, 8), (2, 2), (0, 2), (0, 9), (3, 2)]);
    }

    #[test]
    fn large_groups_and_batches_are_cut_into_even_shards() {
        let prompts = vec![vec![1; 10]; 500];
        let responses = vec![vec![3; 9]; 500];
        let batch = Batch::new(&prompts, &responses, Read::Response).unwrap();
        assert!(batch.shards.len() > 10);
        assert!(batch.shards.iter().all(|shard| shard.tokens.len() <= 2 * SHARD_ROWS));
        let mut slots: Vec<_> = batch.shards.iter().flat_map(|s| s.slots.clone()).collect();
        slots.sort_unstable();
        assert!(slots.iter().copied().eq(0..batch.len()));
    }

    #[test]
    fn wrong_input_is_an_error_that_names_it() {
        let none: &[u32] = &[];
        let error = |p: &[&[u32]], r: &[&[u32]]| Batch::new(p, r, Read::Response).unwrap_err();
        assert!(error(&[&[1]], &[]).to_string().contains("1 prompts and 0 responses"));
        assert!(error(&[none], &[&[2]]).to_string().contains("prompt 0 is empty"));
        let batch = Batch::new(&[[1]], &[[9, 2]], Read::Response).unwrap();
        assert!(batch.check(9, 24).unwrap_err().to_string().contains("token 9"));
        assert!(batch.check(10, 1).unwrap_err().to_string().contains("2 tokens"));
        assert!(batch.check(10, 2).is_ok());
    }
}
