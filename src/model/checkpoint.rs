//! Checkpoints as Hugging Face directories: `config.json`, `model.safetensors`, `tokenizer.json`,
//! `tokenizer_config.json` and, of our own, `recipe.json` with the full training recipe, its fingerprint and the final metrics.

use super::config::{Config, Head, Layout};
use super::gpt::Gpt;
use super::hugging_face::{
    config_from_json, config_to_json, tokenizer_config, vocab_from_json, vocab_to_json,
};
use crate::foundation::vocab::Vocab;
use anyhow::{Context, Result, bail, ensure};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// What a checkpoint directory holds.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The trained model.
    pub model: Gpt,
    /// Its words.
    pub vocab: Vocab,
    /// How it came about.
    pub recipe: Recipe,
}

/// How a model came about, as `recipe.json` tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Hash of `recipe`; two recipes are the same if theirs are.
    pub fingerprint: String,
    /// Everything that determined the weights.
    pub recipe: Value,
    /// What was measured at the end.
    pub metrics: Value,
}

/// What there is for a wanted recipe.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// A model trained by exactly this recipe.
    Found(Box<Checkpoint>),
    /// Nothing there: train.
    Missing,
    /// Another recipe's model: retrain, and say so.
    OtherRecipe {
        /// Fingerprint of the recipe there.
        found: String,
        /// Fingerprint of the one wanted.
        wanted: String,
    },
}

const CONFIG: &str = "config.json";
const WEIGHTS: &str = "model.safetensors";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const RECIPE: &str = "recipe.json";

/// No JSON file of a checkpoint is larger.
const MAX_JSON: u64 = 16 << 20;
/// Room for the header of the weights' file, on top of the numbers.
const MAX_HEADER: u64 = 1 << 20;

/// Looks for a checkpoint of `recipe` in `directory`.
///
/// # Errors
/// If there is a checkpoint that cannot be read; the error names the file and the fault.
pub fn lookup(directory: &Path, recipe: &impl Serialize) -> Result<Lookup> {
    if !directory.exists() {
        return Ok(Lookup::Missing);
    }
    let found = read_recipe(directory)?.fingerprint;
    let wanted = fingerprint(&serde_json::to_value(recipe)?);
    if found != wanted {
        return Ok(Lookup::OtherRecipe { found, wanted });
    }
    Ok(Lookup::Found(Box::new(load(directory)?)))
}

/// Reads a whole checkpoint.
///
/// # Errors
/// If a file is missing, damaged or does not fit the others; the error names it.
pub fn load(directory: &Path) -> Result<Checkpoint> {
    let vocab = in_file(directory, TOKENIZER, |path| vocab_from_json(&read_json(path)?))?;
    let recipe = read_recipe(directory)?;
    let model = load_model(directory)?;
    ensure!(
        vocab.len() == model.config().vocab_size,
        "{}: {} words, the model has {}",
        directory.join(TOKENIZER).display(),
        vocab.len(),
        model.config().vocab_size
    );
    Ok(Checkpoint { model, vocab, recipe })
}

/// Reads `config.json` and `model.safetensors` alone, such as `transformers` writes them.
///
/// # Errors
/// As [`load`].
pub fn load_model(directory: &Path) -> Result<Gpt> {
    let config = in_file(directory, CONFIG, |path| {
        let config = config_from_json(&read_json(path)?)?;
        config.validate()?;
        Ok(config)
    })?;
    in_file(directory, WEIGHTS, |path| {
        let layout = Layout::new(&config);
        // Buffers and a second copy of the tied head are the most that a foreign file adds.
        let most = 2 * 4 * layout.len() as u64 + MAX_HEADER;
        let bytes = read_limited(path, most)?;
        let parameters = parameters(&bytes, &config, &layout)?;
        Gpt::from_flat(config.clone(), parameters)
    })
}

/// Writes a checkpoint beside its target and moves it there: whoever reads finds the old one, for a
/// moment none, or the new one, but never a part of one.
///
/// # Errors
/// If the directory cannot be written; nothing is then left behind.
pub fn save(
    directory: &Path,
    model: &Gpt,
    vocab: &Vocab,
    recipe: &impl Serialize,
    metrics: &impl Serialize,
) -> Result<()> {
    ensure!(
        vocab.len() == model.config().vocab_size,
        "the model has {} words, the vocabulary {}",
        model.config().vocab_size,
        vocab.len()
    );
    let failed = || format!("cannot write the checkpoint {}", directory.display());
    let parent = match directory.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).with_context(failed)?;
    // Beside the target, because a rename does not cross file systems; removed when dropped.
    let temporary =
        tempfile::Builder::new().prefix(".checkpoint-").tempdir_in(parent).with_context(failed)?;
    let (new, old) = (temporary.path().join("new"), temporary.path().join("old"));
    write_files(&new, model, vocab, recipe, metrics).with_context(failed)?;
    if directory.exists() {
        fs::rename(directory, &old).with_context(failed)?;
    }
    if let Err(error) = fs::rename(&new, directory) {
        if old.exists() {
            fs::rename(&old, directory).with_context(failed)?;
        }
        return Err(error).with_context(failed);
    }
    Ok(())
}

fn write_files(
    directory: &Path,
    model: &Gpt,
    vocab: &Vocab,
    recipe: &impl Serialize,
    metrics: &impl Serialize,
) -> Result<()> {
    fs::create_dir(directory)?;
    let recipe = serde_json::to_value(recipe)?;
    let recipe =
        Recipe { fingerprint: fingerprint(&recipe), recipe, metrics: serde_json::to_value(metrics)? };
    write_json(&directory.join(CONFIG), &config_to_json(model.config()))?;
    write_json(&directory.join(TOKENIZER), &vocab_to_json(vocab))?;
    write_json(&directory.join(TOKENIZER_CONFIG), &tokenizer_config(model.config()))?;
    write_json(&directory.join(RECIPE), &recipe)?;
    fs::write(directory.join(WEIGHTS), weights(model)?)?;
    Ok(())
}

/// The model's parameters as the bytes of a safetensors file.
fn weights(model: &Gpt) -> Result<Vec<u8>> {
    let numbers = model.parameters().to_vec1::<f32>()?;
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let views = model
        .layout()
        .parameters
        .iter()
        .map(|parameter| {
            let bytes = &bytes[4 * parameter.range.start..4 * parameter.range.end];
            let view = TensorView::new(Dtype::F32, parameter.shape.clone(), bytes)?;
            Ok((parameter.name.clone(), view))
        })
        .collect::<Result<Vec<_>>>()?;
    let metadata = [("format".to_owned(), "pt".to_owned())].into(); // `transformers` insists on it.
    Ok(safetensors::serialize(views, Some(metadata))?)
}

/// The flat parameters from the bytes of a safetensors file.
fn parameters(bytes: &[u8], config: &Config, layout: &Layout) -> Result<Vec<f32>> {
    let file = SafeTensors::deserialize(bytes)?;
    for name in file.names() {
        let known = layout.parameters.iter().any(|parameter| parameter.name == name);
        ensure!(known || is_redundant(name, config), "unexpected tensor {name:?}");
    }
    let mut numbers = Vec::with_capacity(layout.len());
    for parameter in &layout.parameters {
        let name = &parameter.name;
        let tensor = file.tensor(name).with_context(|| format!("no tensor {name:?}"))?;
        ensure!(
            tensor.dtype() == Dtype::F32 && tensor.shape() == parameter.shape,
            "{name}: expected F32 {:?}, got {:?} {:?}",
            parameter.shape,
            tensor.dtype(),
            tensor.shape()
        );
        for bytes in tensor.data().as_chunks::<4>().0 {
            let x = f32::from_le_bytes(*bytes);
            ensure!(x.is_finite(), "{name}: {x} is no weight");
            numbers.push(x);
        }
    }
    Ok(numbers)
}

/// What older versions of `transformers` write besides: the tied head and the causal mask.
fn is_redundant(name: &str, config: &Config) -> bool {
    (config.head == Head::Language && name == "lm_head.weight")
        || name.ends_with(".attn.bias")
        || name.ends_with(".attn.masked_bias")
}

fn read_recipe(directory: &Path) -> Result<Recipe> {
    in_file(directory, RECIPE, |path| {
        let recipe: Recipe = serde_json::from_value(read_json(path)?)?;
        Ok(recipe)
    })
}

/// Runs `read` on a file of the checkpoint and names the file if that fails.
fn in_file<T>(directory: &Path, name: &str, read: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let path = directory.join(name);
    read(&path).with_context(|| format!("damaged checkpoint file {}", path.display()))
}

fn read_json(path: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&read_limited(path, MAX_JSON)?)?)
}

/// A file's bytes, unless it is larger than it can be.
fn read_limited(path: &Path, most: u64) -> Result<Vec<u8>> {
    let data = fs::metadata(path)?;
    if !data.is_file() {
        bail!("not a file");
    }
    ensure!(data.len() <= most, "{} bytes, expected at most {most}", data.len());
    Ok(fs::read(path)?)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(fs::write(path, text)?)
}

/// 64-bit FNV-1a of the JSON text with sorted keys, in hexadecimal.
fn fingerprint(recipe: &Value) -> String {
    let mut recipe = recipe.clone();
    recipe.sort_all_objects();
    let hash = recipe.to_string().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
