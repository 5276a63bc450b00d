//! Checkpoints: the files of `transformers` are read, ours are whole or absent, damage is named.

use candle_core::{D, DType, Device, Tensor};
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::foundation::vocab::Vocab;
use rlhf_lab::model::batch::{Batch, Read};
use rlhf_lab::model::checkpoint::{Lookup, load, load_model, lookup, save};
use rlhf_lab::model::config::{Config, Head};
use rlhf_lab::model::gpt::Gpt;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> (PathBuf, Value) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let expected = fs::read_to_string(directory.join("expected.json")).unwrap();
    (directory, serde_json::from_str(&expected).unwrap())
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap()],
    }
}

fn flat(x: &Tensor) -> Vec<f64> {
    x.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

fn sequences(expected: &Value) -> Vec<Vec<u32>> {
    let rows = expected["sequences"].as_array().unwrap();
    rows.iter().map(|row| numbers(&row["ids"]).iter().map(|&id| id as u32).collect()).collect()
}

fn assert_close(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (g, w) in got.iter().zip(want) {
        assert!((g - w).abs() < tolerance * (1.0 + w.abs()), "{what}: got {g}, want {w}");
    }
}

/// Norm, first values and product with the parameter of every gradient, as PyTorch has them.
fn assert_gradients(model: &Gpt, loss: &Tensor, expected: &Value) {
    let want_loss = expected["loss"].as_f64().unwrap();
    assert_close(&flat(loss), &[want_loss], 1e-5, "loss");
    let gradients = loss.backward().unwrap();
    let gradient = flat(gradients.get(model.parameters()).unwrap());
    let parameters = flat(model.parameters());
    for parameter in &model.layout().parameters {
        let (name, want) = (&parameter.name, &expected["gradients"][&parameter.name]);
        let part = &gradient[parameter.range.clone()];
        let norm = part.iter().map(|g| g * g).sum::<f64>().sqrt();
        let dot: f64 = part.iter().zip(&parameters[parameter.range.clone()]).map(|(g, p)| g * p).sum();
        assert_close(&[norm], &numbers(&want["norm"]), 1e-4, name);
        assert_close(&[dot], &numbers(&want["dot_parameter"]), 1e-4, name);
        let first = numbers(&want["first"]);
        assert_close(&part[..first.len()], &first, 1e-4, name);
    }
}

#[test]
fn logits_and_gradients_equal_those_of_transformers() {
    let (directory, expected) = golden("gpt2_tiny");
    let model = load_model(&directory).unwrap();
    let sequences = sequences(&expected);
    let none = vec![[0_u32; 0]; sequences.len()];
    let logits = model.logits(Batch::new(&sequences, &none, Read::Every).unwrap()).unwrap();
    let want: Vec<f64> =
        expected["sequences"].as_array().unwrap().iter().flat_map(|row| numbers(&row["logits"])).collect();
    for (got, want) in flat(&logits).iter().zip(&want) {
        assert!((got - want).abs() < 1e-5, "logit {got}, transformers has {want}");
    }
    let prompts: Vec<&[u32]> = sequences.iter().map(|s| &s[..1]).collect();
    let responses: Vec<&[u32]> = sequences.iter().map(|s| &s[1..]).collect();
    let batch = Batch::new(&prompts, &responses, Read::Response).unwrap();
    let loss = model.token_logprobs(batch).unwrap().mean_all().unwrap().neg().unwrap();
    assert_gradients(&model, &loss, &expected);
}

#[test]
fn scores_and_gradients_equal_those_of_transformers() {
    let (directory, expected) = golden("gpt2_tiny_reward");
    let model = load_model(&directory).unwrap();
    let sequences = sequences(&expected);
    let none = vec![[0_u32; 0]; sequences.len()];
    let scores = model.scores(Batch::new(&sequences, &none, Read::Last).unwrap()).unwrap();
    let rows = expected["sequences"].as_array().unwrap();
    let want: Vec<f64> = rows.iter().map(|row| row["score"].as_f64().unwrap()).collect();
    assert_close(&flat(&scores), &want, 1e-5, "scores");

    let n = sequences.len() as u32;
    let pairs: Vec<(u32, u32)> = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j))).collect();
    let pick = |ids: Vec<u32>| scores.index_select(&Tensor::new(ids, &Device::Cpu).unwrap(), 0).unwrap();
    let better = pick(pairs.iter().map(|pair| pair.0).collect());
    let worse = pick(pairs.iter().map(|pair| pair.1).collect());
    let both = Tensor::stack(&[better, worse], 1).unwrap();
    let logp = candle_nn::ops::log_softmax(&both, D::Minus1).unwrap().narrow(1, 0, 1).unwrap();
    let square = scores.sqr().unwrap().mean_all().unwrap();
    let loss = ((square * 0.1).unwrap() - logp.mean_all().unwrap()).unwrap();
    assert_gradients(&model, &loss, &expected);
}

fn fresh(head: Head) -> (Gpt, Vocab) {
    let vocab = Vocab::new(&["=", "0", "1"]).unwrap();
    let config = Config { n_embd: 8, n_head: 2, n_layer: 1, head, ..Config::mini(vocab.len(), 5) };
    (Gpt::new(config, &Rng::new(1)).unwrap(), vocab)
}

#[test]
fn a_saved_checkpoint_is_found_by_its_recipe_and_by_no_other() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("deep").join("base");
    let recipe = json!({ "lr": 1e-3, "steps": 10, "seed": 0 });
    assert!(matches!(lookup(&directory, &recipe).unwrap(), Lookup::Missing));
    for head in [Head::Language, Head::Score] {
        let (model, vocab) = fresh(head);
        save(&directory, &model, &vocab, &recipe, &json!({ "acc": 0.5 })).unwrap();
        let reordered = json!({ "seed": 0, "lr": 1e-3, "steps": 10 });
        let Lookup::Found(found) = lookup(&directory, &reordered).unwrap() else {
            panic!("the checkpoint should be found");
        };
        assert_eq!(found.model.config(), model.config());
        assert_eq!(flat(found.model.parameters()), flat(model.parameters()));
        assert_eq!(found.vocab, vocab);
        assert_eq!(found.recipe.metrics, json!({ "acc": 0.5 }));
    }
    let other = lookup(&directory, &json!({ "lr": 1e-3, "steps": 11, "seed": 0 })).unwrap();
    assert!(matches!(other, Lookup::OtherRecipe { .. }));
    let left: Vec<_> = fs::read_dir(directory.parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing temporary is left behind");
}

#[test]
fn a_tokenizer_of_transformers_is_read() {
    let (directory, _) = golden("gpt2_tiny");
    let home = tempfile::tempdir().unwrap();
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        fs::copy(directory.join(name), home.path().join(name)).unwrap();
    }
    let recipe = json!({ "fingerprint": "0", "recipe": {}, "metrics": {} });
    fs::write(home.path().join("recipe.json"), recipe.to_string()).unwrap();
    let checkpoint = load(home.path()).unwrap();
    assert_eq!(checkpoint.vocab.encode("<s> = 8").unwrap(), [1, 3, 12]);
}

#[test]
fn damage_is_an_error_that_names_the_file_and_never_a_panic() {
    let (model, vocab) = fresh(Head::Language);
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("base");
    let files = ["config.json", "model.safetensors", "tokenizer.json", "recipe.json"];
    for name in files {
        let whole = {
            save(&directory, &model, &vocab, &json!({}), &json!({})).unwrap();
            fs::read(directory.join(name)).unwrap()
        };
        let cut = whole[..whole.len() / 2].to_vec();
        let huge = [&u64::MAX.to_le_bytes()[..], b"{}"].concat();
        let foreign = br#"{"model_type":"bert"}"#.to_vec();
        for damaged in [cut, Vec::new(), huge, foreign, b"null".to_vec(), vec![0xff; 1000]] {
            fs::write(directory.join(name), damaged).unwrap();
            let error = format!("{:#}", load(&directory).unwrap_err());
            assert!(error.contains(name), "{name}: {error}");
        }
        fs::remove_file(directory.join(name)).unwrap();
        let error = format!("{:#}", load(&directory).unwrap_err());
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn wrong_shapes_and_numbers_are_named() {
    let (model, vocab) = fresh(Head::Language);
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("base");
    let edit = |from: &str, to: &str| {
        save(&directory, &model, &vocab, &json!({}), &json!({})).unwrap();
        let text = fs::read_to_string(directory.join("config.json")).unwrap();
        assert!(text.contains(from));
        fs::write(directory.join("config.json"), text.replace(from, to)).unwrap();
        format!("{:#}", load(&directory).unwrap_err())
    };
    assert!(edit("\"n_positions\": 5", "\"n_positions\": 6").contains("transformer.wpe.weight"));
    assert!(edit("\"n_embd\": 8", "\"n_embd\": 8000000").contains("limit"));
    assert!(edit("\"n_head\": 2", "\"n_head\": 3").contains("n_head 3"));
    assert!(edit("gelu_new", "relu").contains("activation_function"));
    assert!(edit("embeddings\": true", "embeddings\": false").contains("tie_word_embeddings"));

    let count = model.layout().len();
    let bad = Gpt::from_flat(model.config().clone(), vec![f32::NAN; count]).unwrap();
    save(&directory, &bad, &vocab, &json!({}), &json!({})).unwrap();
    assert!(format!("{:#}", load(&directory).unwrap_err()).contains("NaN is no weight"));
}

/// The other direction: writes `target/export/{lm,reward}` for
/// `python tests/golden/make_golden.py --check target/export/lm target/export/reward`.
#[test]
#[ignore = "needs transformers to read what it writes"]
fn export_checkpoints_for_transformers() {
    for (head, name) in [(Head::Language, "lm"), (Head::Score, "reward")] {
        let words: Vec<String> = (0..20).map(|i| format!("word{i}")).collect();
        let vocab = Vocab::new(&words).unwrap();
        let config = Config { initializer_range: 0.2, head, ..Config::mini(vocab.len(), 24) };
        let model = Gpt::new(config, &Rng::new(3)).unwrap().no_grad();
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/export").join(name);
        save(&directory, &model, &vocab, &json!({}), &json!({})).unwrap();
        let rows: Vec<Value> = [1_usize, 7, 24]
            .iter()
            .map(|&n| {
                let ids: Vec<u32> = (0..n).map(|i| (1 + i * 5 % 22) as u32).collect();
                let none = [[0_u32; 0]];
                let text = vocab.decode(&ids);
                match head {
                    Head::Language => {
                        let batch = Batch::new(&[&ids], &none, Read::Every).unwrap();
                        let logits = model.logits(batch).unwrap().to_vec2::<f32>().unwrap();
                        json!({ "ids": ids, "text": text, "logits": logits })
                    }
                    Head::Score => {
                        let batch = Batch::new(&[&ids], &none, Read::Last).unwrap();
                        let score = model.scores(batch).unwrap().to_vec1::<f32>().unwrap()[0];
                        json!({ "ids": ids, "text": text, "score": score })
                    }
                }
            })
            .collect();
        let expected = json!({ "sequences": rows });
        fs::write(directory.join("expected.json"), expected.to_string()).unwrap();
    }
}
