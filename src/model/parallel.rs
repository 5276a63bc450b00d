//! The network as one Candle operation on the flat parameter vector, its shards spread over threads.
//!
//! A shard is computed on one thread from start to end, and shards are summed in their order, so the
//! number of threads changes the time and not one bit of the result.

use super::batch::Batch;
use super::config::{Config, Layout};
use super::fused::real::Real;
use super::network::{Network, Output, Weights, Workspace};
use candle_core::{CpuStorage, CustomOp1, Result, Shape, Tensor, bail};
use rayon::prelude::{
    IndexedParallelIterator, IntoParallelIterator, IntoParallelRefIterator, ParallelIterator,
    ParallelSliceMut,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory between passes: fresh pages cost more than the arithmetic done on them.
#[derive(Debug)]
pub(crate) struct Pool<R> {
    pub workspaces: Mutex<Vec<Workspace<R>>>,
    weights: Mutex<Vec<Weights<R>>>,
    gradients: Mutex<Vec<Vec<R>>>,
}

impl<R> Pool<R> {
    const fn new() -> Self {
        Self {
            workspaces: Mutex::new(Vec::new()),
            weights: Mutex::new(Vec::new()),
            gradients: Mutex::new(Vec::new()),
        }
    }
}

/// Numbers that have a pool of their own.
pub(crate) trait Pooled: Real {
    fn pool() -> &'static Pool<Self>;
}

impl Pooled for f32 {
    fn pool() -> &'static Pool<f32> {
        static POOL: Pool<f32> = Pool::new();
        &POOL
    }
}

impl Pooled for f64 {
    fn pool() -> &'static Pool<f64> {
        static POOL: Pool<f64> = Pool::new();
        &POOL
    }
}

/// What is behind a lock is whole at any time, so a panic elsewhere is no reason for another one.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn take<T: Default>(pool: &Mutex<Vec<T>>) -> T {
    lock(pool).pop().unwrap_or_default()
}

/// Parameters `[P]` to the outputs of a batch's targets, in the order of the batch.
pub(crate) struct NetworkOp<R: Pooled> {
    pub config: Arc<Config>,
    pub layout: Arc<Layout>,
    pub batch: Arc<Batch>,
    pub output: Output,
    /// Whether the backward pass will be asked for.
    pub keep: bool,
    /// What the forward pass left for it.
    pub kept: Mutex<Option<Kept<R>>>,
}

/// Packed weights and the activations of every shard.
pub(crate) type Kept<R> = (Weights<R>, Vec<Workspace<R>>);

impl<R: Pooled> NetworkOp<R> {
    /// Numbers per target.
    fn width(&self) -> usize {
        match self.output {
            Output::Hidden => self.config.n_embd,
            Output::Logits => self.config.vocab_size,
            Output::LogProb => 1,
        }
    }

    fn network<'a>(&'a self, parameters: &'a [R], weights: &'a Weights<R>) -> Network<'a, R> {
        Network { config: &self.config, layout: &self.layout, parameters, weights }
    }

    fn forward(&self, parameters: &[R]) -> Vec<R> {
        let mut weights = take(&R::pool().weights);
        weights.pack(&self.config, &self.layout, parameters, self.keep);
        let network = self.network(parameters, &weights);
        let parts: Vec<(Vec<R>, Option<Workspace<R>>)> = self
            .batch
            .shards
            .par_iter()
            .with_max_len(1)
            .map(|shard| {
                let mut ws = take(&R::pool().workspaces);
                network.forward(shard, self.output, self.keep, &mut ws);
                let out = ws.out.clone();
                if self.keep {
                    (out, Some(ws))
                } else {
                    lock(&R::pool().workspaces).push(ws);
                    (out, None)
                }
            })
            .collect();

        let width = self.width();
        let mut out = vec![R::zero(); self.batch.len() * width];
        let mut workspaces = Vec::new();
        for (shard, (part, ws)) in self.batch.shards.iter().zip(parts) {
            for (numbers, &slot) in part.chunks_exact(width).zip(&shard.slots) {
                out[slot * width..(slot + 1) * width].copy_from_slice(numbers);
            }
            workspaces.extend(ws);
        }
        if self.keep {
            *lock(&self.kept) = Some((weights, workspaces));
        } else {
            lock(&R::pool().weights).push(weights);
        }
        out
    }

    fn backward(&self, parameters: &[R], dout: &[R]) -> Result<Vec<R>> {
        let Some((weights, workspaces)) = lock(&self.kept).take() else {
            bail!("the activations of this pass are gone: backward runs once per forward");
        };
        let network = self.network(parameters, &weights);
        let width = self.width();
        let parts: Vec<Vec<R>> = self
            .batch
            .shards
            .par_iter()
            .zip(workspaces.into_par_iter())
            .with_max_len(1)
            .map(|(shard, mut ws)| {
                let mut gradient = take(&R::pool().gradients);
                gradient.resize(parameters.len(), R::zero());
                let slots = shard.slots.iter();
                let dout: Vec<R> =
                    slots.flat_map(|&slot| &dout[slot * width..(slot + 1) * width]).copied().collect();
                network.backward(shard, self.output, &dout, &mut ws, &mut gradient);
                lock(&R::pool().workspaces).push(ws);
                gradient
            })
            .collect();
        lock(&R::pool().weights).push(weights);

        let mut total = vec![R::zero(); parameters.len()];
        total.par_chunks_mut(CHUNK).enumerate().for_each(|(i, total)| {
            for part in &parts {
                for (total, &g) in total.iter_mut().zip(&part[i * CHUNK..]) {
                    *total += g;
                }
            }
        });
        lock(&R::pool().gradients).extend(parts);
        Ok(total)
    }
}

/// Parameters summed at a time.
const CHUNK: usize = 1 << 13;

impl<R: Pooled> Drop for NetworkOp<R> {
    fn drop(&mut self) {
        if let Some((weights, workspaces)) = lock(&self.kept).take() {
            lock(&R::pool().weights).push(weights);
            lock(&R::pool().workspaces).extend(workspaces);
        }
    }
}

impl<R: Pooled> CustomOp1 for NetworkOp<R> {
    fn name(&self) -> &'static str {
        "gpt"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &candle_core::Layout) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("the parameters must be contiguous, got {layout:?}");
        };
        let out = self.forward(&R::cpu_storage_as_slice(storage)?[start..end]);
        let shape = match self.output {
            Output::LogProb => Shape::from(self.batch.len()),
            _ => Shape::from((self.batch.len(), self.width())),
        };
        Ok((R::to_cpu_storage_owned(out), shape))
    }

    fn bwd(&self, parameters: &Tensor, _out: &Tensor, dout: &Tensor) -> Result<Option<Tensor>> {
        let dout = dout.flatten_all()?.to_vec1::<R>()?;
        let (storage, layout) = parameters.storage_and_layout();
        let candle_core::Storage::Cpu(storage) = &*storage else {
            bail!("the parameters must be on the CPU, got {:?}", parameters.device());
        };
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("the parameters must be contiguous, got {layout:?}");
        };
        let gradient = self.backward(&R::cpu_storage_as_slice(storage)?[start..end], &dout)?;
        Tensor::from_vec(gradient, parameters.shape(), parameters.device()).map(Some)
    }
}
