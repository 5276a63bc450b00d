//! The JSON that `transformers` and `tokenizers` read and write for a small GPT-2.

use super::config::{Config, Head};
use super::fused::layer_norm::EPSILON;
use crate::foundation::vocab::Vocab;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

/// `config.json` of a `GPT2LMHeadModel` or a `GPT2ForSequenceClassification`.
pub(crate) fn config_to_json(config: &Config) -> Value {
    let architecture = match config.head {
        Head::Language => "GPT2LMHeadModel",
        Head::Score => "GPT2ForSequenceClassification",
    };
    let mut json = json!({
        "architectures": [architecture],
        "model_type": "gpt2",
        "vocab_size": config.vocab_size,
        "n_positions": config.n_positions,
        "n_embd": config.n_embd,
        "n_layer": config.n_layer,
        "n_head": config.n_head,
        "n_inner": null,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": EPSILON,
        "initializer_range": config.initializer_range,
        "tie_word_embeddings": true,
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "bos_token_id": Vocab::BOS,
        "eos_token_id": Vocab::EOS,
        "pad_token_id": Vocab::PAD,
        "dtype": "float32",
    });
    if config.head == Head::Score {
        json["id2label"] = json!({ "0": "LABEL_0" });
        json["label2id"] = json!({ "LABEL_0": 0 });
    }
    json
}

/// The architecture a `config.json` describes.
///
/// # Errors
/// If a field is missing or says something that this model does not compute.
pub(crate) fn config_from_json(json: &Value) -> Result<Config> {
    let size = |name: &str| -> Result<usize> {
        let value = json[name].as_u64().and_then(|size| usize::try_from(size).ok());
        value.with_context(|| format!("{name} should be a size, got {}", json[name]))
    };
    let architecture = json["architectures"][0].as_str().unwrap_or("none");
    let head = match architecture {
        "GPT2LMHeadModel" => Head::Language,
        "GPT2ForSequenceClassification" => Head::Score,
        other => bail!("expected architecture GPT2LMHeadModel, got {other}"),
    };
    let config = Config {
        vocab_size: size("vocab_size")?,
        n_positions: size("n_positions")?,
        n_embd: size("n_embd")?,
        n_layer: size("n_layer")?,
        n_head: size("n_head")?,
        initializer_range: json["initializer_range"].as_f64().unwrap_or(0.02),
        head,
    };
    // Absent means GPT-2's default, which is what is computed here.
    let fixed = [
        ("model_type", json!("gpt2")),
        ("activation_function", json!("gelu_new")),
        ("layer_norm_epsilon", json!(EPSILON)),
        ("tie_word_embeddings", json!(true)),
        ("scale_attn_weights", json!(true)),
        ("scale_attn_by_inverse_layer_idx", json!(false)),
        ("add_cross_attention", json!(false)),
        ("n_inner", json!(null)),
    ];
    for (name, want) in fixed {
        let got = json.get(name).unwrap_or(&want);
        ensure!(*got == want, "{name}: expected {want}, got {got}");
    }
    if head == Head::Score {
        let labels = json["id2label"].as_object().map_or(0, Map::len);
        ensure!(labels == 1, "a reward model has one label, got {labels}");
    }
    Ok(config)
}

/// `tokenizer.json` of the `tokenizers` library: words between spaces.
pub(crate) fn vocab_to_json(vocab: &Vocab) -> Value {
    let special: Vec<Value> = Vocab::SPECIAL
        .iter()
        .enumerate()
        .map(|(id, word)| {
            json!({
                "id": id, "content": word, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            })
        })
        .collect();
    let words: Map<String, Value> =
        vocab.words().iter().enumerate().map(|(id, word)| (word.clone(), json!(id))).collect();
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": special,
        "normalizer": null,
        "pre_tokenizer": { "type": "WhitespaceSplit" },
        "post_processor": null,
        "decoder": null,
        "model": { "type": "WordLevel", "vocab": words, "unk_token": Vocab::SPECIAL[0] },
    })
}

/// `tokenizer_config.json`, without which `AutoTokenizer` takes GPT-2's own byte-pair code for that of
/// every GPT-2.
pub(crate) fn tokenizer_config(config: &Config) -> Value {
    let [pad, bos, eos] = Vocab::SPECIAL;
    json!({
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos,
        "pad_token": pad,
        "model_max_length": config.n_positions,
        "clean_up_tokenization_spaces": false,
    })
}

/// The words of a word-level `tokenizer.json`.
///
/// # Errors
/// If it is another kind of tokenizer or its ids are not 0, 1, 2, ..
pub(crate) fn vocab_from_json(json: &Value) -> Result<Vocab> {
    let kind = &json["model"]["type"];
    ensure!(kind == "WordLevel", "expected a WordLevel tokenizer, got {kind}");
    let table = json["model"]["vocab"].as_object().context("model.vocab should be an object")?;
    let mut words = vec![None; table.len()];
    for (word, id) in table {
        let place = id.as_u64().and_then(|id| words.get_mut(usize::try_from(id).ok()?));
        let place =
            place.with_context(|| format!("the id of {word:?} should be below {}, got {id}", table.len()))?;
        ensure!(place.replace(word.clone()).is_none(), "two words have the id {id}");
    }
    // As many ids as places, none twice: every place is taken.
    Ok(Vocab::from_words(words.into_iter().flatten().collect())?)
}
