//! GPT-2 (Radford et al. 2019) on one flat vector of parameters.
//!
//! The whole network is one differentiable Candle operation: a loss is an ordinary expression of the
//! tensors returned here, and `loss.backward()?.get(model.parameters())` is its gradient. The
//! readable definition of what is computed is [`composed`](super::composed); tests hold the two
//! together.

use super::batch::{Batch, Read};
use super::config::{Config, Head, Layout};
use super::network::Output;
use super::parallel::{NetworkOp, Pooled};
use crate::foundation::rng::Rng;
use anyhow::{Context, Result, bail, ensure};
use candle_core::{DType, Device, Tensor, Var};
use std::sync::{Arc, Mutex};

/// A language model or a reward model. Cloning shares the parameters.
#[derive(Clone, Debug)]
pub struct Gpt {
    config: Arc<Config>,
    layout: Arc<Layout>,
    parameters: Tensor, // [P]
}

impl Gpt {
    /// A fresh model. Weights are N(0, `initializer_range`²), those of projections back to the
    /// residual stream divided by √(2 `n_layer`), biases 0, LayerNorm weights 1; every tensor draws
    /// from `rng.fork(name)`.
    pub fn new(config: Config, rng: &Rng) -> Result<Self> {
        config.validate()?;
        let layout = Layout::new(&config);
        let mut parameters = Vec::with_capacity(layout.len());
        for parameter in &layout.parameters {
            let name = parameter.name.as_str();
            let is_norm = name.contains(".ln_");
            if name.ends_with("bias") || is_norm {
                let value = if name.ends_with("bias") { 0.0 } else { 1.0 };
                parameters.resize(parameter.range.end, value);
                continue;
            }
            let depth = if name.ends_with("c_proj.weight") { 2 * config.n_layer } else { 1 };
            let std = config.initializer_range / (depth as f64).sqrt();
            let mut rng = rng.fork(name);
            parameters.extend(parameter.range.clone().map(|_| (std * rng.normal()) as f32));
        }
        Self::from_flat(config, parameters)
    }

    /// A model from its parameters in the order of [`Layout`].
    pub fn from_flat(config: Config, parameters: Vec<f32>) -> Result<Self> {
        let count = parameters.len();
        Self::from_tensor(config, Tensor::from_vec(parameters, count, &Device::Cpu)?)
    }

    /// The same from a tensor `[P]` of F32 or F64, which is copied.
    pub fn from_tensor(config: Config, parameters: Tensor) -> Result<Self> {
        config.validate()?;
        let layout = Layout::new(&config);
        ensure!(
            parameters.dims() == [layout.len()],
            "the config asks for {} parameters, got a tensor of shape {:?}",
            layout.len(),
            parameters.dims()
        );
        let parameters = Var::from_tensor(&parameters.detach().copy()?)?;
        Ok(Self {
            config: Arc::new(config),
            layout: Arc::new(layout),
            parameters: parameters.as_tensor().clone(),
        })
    }

    /// The architecture.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Names, shapes and places of all parameters.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// All parameters `[P]`: the variable that gradients are taken of.
    pub fn parameters(&self) -> &Tensor {
        &self.parameters
    }

    /// One parameter by Hugging Face's name, as a view that gradients flow through.
    pub fn parameter(&self, name: &str) -> Result<Tensor> {
        let parameter = self
            .layout
            .parameters
            .iter()
            .find(|parameter| parameter.name == name)
            .with_context(|| format!("the model has no parameter {name:?}"))?;
        let range = &parameter.range;
        let view = self.parameters.narrow(0, range.start, range.len())?;
        Ok(view.reshape(parameter.shape.as_slice())?)
    }

    /// The same parameters without gradients: for rollouts and evaluation. It sees later updates.
    pub fn no_grad(&self) -> Self {
        Self { parameters: self.parameters.detach(), ..self.clone() }
    }

    /// An independent trainable copy.
    pub fn duplicate(&self) -> Result<Self> {
        Self::from_tensor((*self.config).clone(), self.parameters.clone())
    }

    /// The same model computing in `dtype`, F32 or F64.
    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        Self::from_tensor((*self.config).clone(), self.parameters.detach().to_dtype(dtype)?)
    }

    /// A reward model on a copy of this trunk, its score head drawn from `rng.fork("score.weight")`.
    pub fn with_score_head(&self, rng: &Rng) -> Result<Self> {
        let config = Config { head: Head::Score, ..(*self.config).clone() };
        let trunk = self.layout.score.as_ref().map_or(self.layout.len(), |score| score.start);
        let mut parameters = self.parameters.detach().narrow(0, 0, trunk)?.to_vec1::<f32>()?;
        let mut rng = rng.fork("score.weight");
        let std = config.initializer_range;
        parameters.extend((0..config.n_embd).map(|_| (std * rng.normal()) as f32));
        Self::from_flat(config, parameters)
    }

    /// log π of every response token, `[batch.len()]`, from a batch made with [`Read::Response`].
    pub fn token_logprobs(&self, batch: Batch) -> Result<Tensor> {
        ensure!(
            batch.read() == Read::Response,
            "log-probabilities need a batch of responses, got {:?}",
            batch.read()
        );
        self.language()?;
        self.apply(batch, Output::LogProb)
    }

    /// Scores of the token that follows each token read, `[batch.len(), V]`.
    pub fn logits(&self, batch: Batch) -> Result<Tensor> {
        self.language()?;
        self.apply(batch, Output::Logits)
    }

    /// Hidden states after the final LayerNorm of each token read, `[batch.len(), C]`.
    pub fn hidden(&self, batch: Batch) -> Result<Tensor> {
        self.apply(batch, Output::Hidden)
    }

    /// The reward of each pair, `[B]`, from a batch made with [`Read::Last`].
    pub fn scores(&self, batch: Batch) -> Result<Tensor> {
        ensure!(self.config.head == Head::Score, "scores need a reward model, this is a language model");
        ensure!(batch.read() == Read::Last, "scores are read at the last token, got {:?}", batch.read());
        let weight = self.parameter("score.weight")?; // [1, C]
        Ok(self.hidden(batch)?.broadcast_mul(&weight)?.sum(1)?) // [B, C] to [B]
    }

    fn language(&self) -> Result<()> {
        ensure!(
            self.config.head == Head::Language,
            "next-token scores need a language model, this is a reward model"
        );
        Ok(())
    }

    fn apply(&self, batch: Batch, output: Output) -> Result<Tensor> {
        batch.check(self.config.vocab_size, self.config.n_positions)?;
        match self.parameters.dtype() {
            DType::F32 => self.apply_as::<f32>(batch, output),
            DType::F64 => self.apply_as::<f64>(batch, output),
            other => bail!("the model computes in F32 or F64, got {other:?}"),
        }
    }

    fn apply_as<R: Pooled>(&self, batch: Batch, output: Output) -> Result<Tensor> {
        Ok(self.parameters.apply_op1(NetworkOp::<R> {
            config: self.config.clone(),
            layout: self.layout.clone(),
            batch: Arc::new(batch),
            output,
            keep: self.parameters.track_op(),
            kept: Mutex::new(None),
        })?)
    }
}
