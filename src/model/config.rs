//! The shape of a GPT and where each of its tensors lives in one flat vector of parameters.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What stands on top of the trunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Head {
    /// Next-token logits through the transposed token embedding (`GPT2LMHeadModel`).
    Language,
    /// One score per sequence, `score.weight` times the last hidden state
    /// (`GPT2ForSequenceClassification` with one label).
    Score,
}

/// The architecture of a GPT-2 (Radford et al. 2019), under Hugging Face's names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Number of tokens, V.
    pub vocab_size: usize,
    /// Longest sequence, in tokens.
    pub n_positions: usize,
    /// Width of the residual stream, C.
    pub n_embd: usize,
    /// Number of blocks.
    pub n_layer: usize,
    /// Number of attention heads, H, a divisor of C.
    pub n_head: usize,
    /// Standard deviation of the initial weights.
    pub initializer_range: f64,
    /// Language model or reward model.
    pub head: Head,
}

impl Config {
    /// The lab's mini-GPT: width 64, 4 blocks, 4 heads, GPT-2's initialisation.
    pub fn mini(vocab_size: usize, n_positions: usize) -> Self {
        Self {
            vocab_size,
            n_positions,
            n_embd: 64,
            n_layer: 4,
            n_head: 4,
            initializer_range: 0.02,
            head: Head::Language,
        }
    }

    /// Rejects shapes that cannot exist, and ones so large that they must come from a damaged file.
    pub fn validate(&self) -> Result<()> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("n_positions", self.n_positions),
            ("n_embd", self.n_embd),
            ("n_layer", self.n_layer),
            ("n_head", self.n_head),
        ];
        for (name, size) in sizes {
            ensure!(size > 0, "{name} must be positive, got 0");
            ensure!(size <= MAX_SIZE, "{name} is at most {MAX_SIZE}, got {size}");
        }
        ensure!(
            self.n_embd.is_multiple_of(self.n_head),
            "n_embd {} is not a multiple of n_head {}",
            self.n_embd,
            self.n_head
        );
        ensure!(
            self.initializer_range.is_finite() && self.initializer_range >= 0.0,
            "initializer_range must be finite and not negative, got {}",
            self.initializer_range
        );
        let count = self.count();
        ensure!(
            count <= MAX_PARAMETERS,
            "a model of {count} parameters is larger than this lab's limit of {MAX_PARAMETERS}"
        );
        Ok(())
    }

    /// Number of parameters, without overflow for every size that [`Config::validate`] lets through.
    fn count(&self) -> u128 {
        let [v, p, c, l] =
            [self.vocab_size, self.n_positions, self.n_embd, self.n_layer].map(|size| size as u128);
        let score = if self.head == Head::Score { c } else { 0 };
        (v + p) * c + l * (12 * c * c + 13 * c) + 2 * c + score
    }
}

const MAX_SIZE: usize = 1 << 24;
const MAX_PARAMETERS: u128 = 1 << 28;

/// One named tensor inside the flat vector of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Hugging Face's name, such as `transformer.h.0.attn.c_attn.weight`.
    pub name: String,
    /// Its shape; a linear map is `[in, out]`.
    pub shape: Vec<usize>,
    /// Its place in the flat vector.
    pub range: Range<usize>,
}

/// Weight and bias of a linear map or of a LayerNorm.
#[derive(Clone, Debug)]
pub(crate) struct Affine {
    pub weight: Range<usize>,
    pub bias: Range<usize>,
}

/// The six affine maps of a block.
#[derive(Clone, Debug)]
pub(crate) struct BlockLayout {
    pub ln_1: Affine,     // [C]
    pub c_attn: Affine,   // [C, 3C]
    pub attn_out: Affine, // [C, C]
    pub ln_2: Affine,     // [C]
    pub c_fc: Affine,     // [C, 4C]
    pub mlp_out: Affine,  // [4C, C]
}

/// Where every tensor lives in the flat vector, in the order of a Hugging Face state dict.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Every tensor, in order and without gaps.
    pub parameters: Vec<Parameter>,
    pub(crate) wte: Range<usize>, // [V, C]
    pub(crate) wpe: Range<usize>, // [P, C]
    pub(crate) blocks: Vec<BlockLayout>,
    pub(crate) ln_f: Affine,                // [C]
    pub(crate) score: Option<Range<usize>>, // [1, C]
}

impl Layout {
    /// The layout of a validated `config`.
    pub fn new(config: &Config) -> Self {
        let (c, mut table) = (config.n_embd, Table::default());
        let wte = table.add("transformer.wte.weight", &[config.vocab_size, c]);
        let wpe = table.add("transformer.wpe.weight", &[config.n_positions, c]);
        let blocks = (0..config.n_layer)
            .map(|l| {
                let mut affine =
                    |name: &str, shape: &[usize]| table.affine(&format!("transformer.h.{l}.{name}"), shape);
                BlockLayout {
                    ln_1: affine("ln_1", &[c]),
                    c_attn: affine("attn.c_attn", &[c, 3 * c]),
                    attn_out: affine("attn.c_proj", &[c, c]),
                    ln_2: affine("ln_2", &[c]),
                    c_fc: affine("mlp.c_fc", &[c, 4 * c]),
                    mlp_out: affine("mlp.c_proj", &[4 * c, c]),
                }
            })
            .collect();
        let ln_f = table.affine("transformer.ln_f", &[c]);
        let score = (config.head == Head::Score).then(|| table.add("score.weight", &[1, c]));
        Self { parameters: table.parameters, wte, wpe, blocks, ln_f, score }
    }

    /// Length of the flat vector.
    pub fn len(&self) -> usize {
        self.parameters.last().map_or(0, |p| p.range.end)
    }

    /// Whether there are no parameters, which no valid config gives.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }
}

#[derive(Default)]
struct Table {
    parameters: Vec<Parameter>,
}

impl Table {
    fn add(&mut self, name: &str, shape: &[usize]) -> Range<usize> {
        let start = self.parameters.last().map_or(0, |p| p.range.end);
        let range = start..start + shape.iter().product::<usize>();
        self.parameters.push(Parameter {
            name: name.to_owned(),
            shape: shape.to_vec(),
            range: range.clone(),
        });
        range
    }

    /// A weight of `shape` and the bias that belongs to its last dimension.
    fn affine(&mut self, name: &str, shape: &[usize]) -> Affine {
        Affine {
            weight: self.add(&format!("{name}.weight"), shape),
            bias: self.add(&format!("{name}.bias"), &shape[shape.len() - 1..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_has_as_many_numbers_as_the_config_counts() {
        for head in [Head::Language, Head::Score] {
            let config = Config { head, ..Config::mini(18, 24) };
            assert_eq!(Layout::new(&config).len() as u128, config.count());
        }
        assert_eq!(Layout::new(&Config::mini(18, 24)).len(), 202_752);
    }

    #[test]
    fn impossible_and_monstrous_shapes_are_errors() {
        let good = Config::mini(18, 24);
        assert!(good.validate().is_ok());
        for bad in [
            Config { n_head: 5, ..good.clone() },
            Config { n_layer: 0, ..good.clone() },
            Config { vocab_size: usize::MAX, ..good.clone() },
            Config { n_embd: 1 << 20, n_head: 1, ..good.clone() },
            Config { initializer_range: f64::NAN, ..good.clone() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
