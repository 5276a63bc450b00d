//! DPO and reward modelling on a language of six words, where everything can be enumerated.

use std::f64::consts::LN_2;

use rlhf_lab::algorithms::dpo::{Dpo, PairLogProbs, PairMetrics, dpo_loss};
use rlhf_lab::algorithms::reward_model::{RewardModelling, ordering, score};
use rlhf_lab::foundation::preference_pair::PreferencePair;
use rlhf_lab::foundation::ranking::Ranking;
use rlhf_lab::foundation::rng::Rng;
use rlhf_lab::foundation::stats::{log_softmax, probabilities, sigmoid, total_variation};
use rlhf_lab::model::config::Config;
use rlhf_lab::model::gpt::Gpt;
use rlhf_lab::policy::logprob::seq_logprob;
use rlhf_lab::policy::optimal::log_optimal_policy;
use rlhf_lab::policy::sampling::{Sampling, sample};

const V: usize = 6;

fn model(seed: u64) -> Gpt {
    let config = Config { n_embd: 16, n_layer: 2, n_head: 2, initializer_range: 0.3, ..Config::mini(V, 8) };
    Gpt::new(config, &Rng::new(seed)).unwrap()
}

fn bits(model: &Gpt) -> Vec<u32> {
    model.parameters().to_vec1::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// Pairs of different lengths, some with and some without an end token, some to the same prompt.
fn ragged() -> Vec<PreferencePair> {
    let pair = |prompt: &[u32], chosen: &[u32], rejected: &[u32]| PreferencePair {
        prompt: prompt.to_vec(),
        chosen: chosen.to_vec(),
        rejected: rejected.to_vec(),
    };
    vec![
        pair(&[1], &[3, 4, 2], &[5, 2]),
        pair(&[1, 3, 3], &[4, 4, 4, 4, 4], &[2]),
        pair(&[1], &[2], &[5, 5, 5, 2]),
        pair(&[1, 4], &[3, 2], &[3, 5]),
        pair(&[1, 3, 3], &[5, 2], &[4, 2]),
    ]
}

fn chosen_and_rejected(model: &Gpt, pairs: &[PreferencePair]) -> [Vec<f64>; 2] {
    let logprobs = PairLogProbs::of(model, &pairs.iter().collect::<Vec<_>>()).unwrap();
    [logprobs.chosen, logprobs.rejected].map(|side| side.to_vec1().unwrap())
}

/// Winner and loser side by side on one prompt, in one batch with others, or each alone: the same bits.
#[test]
fn pairs_share_their_prompt_without_touching_each_other() {
    let (model, pairs) = (model(1), ragged());
    let [chosen, rejected] = chosen_and_rejected(&model, &pairs);
    for (i, pair) in pairs.iter().enumerate() {
        let alone = |response: &Vec<u32>| {
            let logprob = seq_logprob(&model, &[&pair.prompt], &[response]).unwrap();
            f64::from(logprob.to_vec1::<f32>().unwrap()[0])
        };
        assert_eq!((chosen[i], rejected[i]), (alone(&pair.chosen), alone(&pair.rejected)));
    }
}

/// The first word and the end of a response count: changing either changes the loss.
#[test]
fn no_token_of_a_response_is_lost() {
    let (policy, reference) = (model(1), model(2).no_grad());
    let loss = |pairs: &[PreferencePair]| {
        let pairs: Vec<_> = pairs.iter().collect();
        let [policy, reference] = [&policy, &reference].map(|model| PairLogProbs::of(model, &pairs).unwrap());
        dpo_loss(&policy, &reference, 0.5).unwrap().to_scalar::<f64>().unwrap()
    };
    let before = loss(&ragged());
    let edits: [fn(&mut PreferencePair); 3] =
        [|pair| pair.chosen[0] = 5, |pair| pair.chosen[2] = 4, |pair| pair.rejected[1] = 3];
    for edit in edits {
        let mut pairs = ragged();
        edit(&mut pairs[0]);
        assert!((loss(&pairs) - before).abs() > 1e-4);
    }
}

#[test]
fn dpo_begins_at_log_two_and_stays_there_at_a_learning_rate_of_zero() {
    let policy = model(1);
    let reference = policy.duplicate().unwrap();
    let dpo = Dpo { beta: 0.5, epochs: 2, batch: 2, lr: 0.0 };
    let mut steps = Vec::new();
    let diverged = dpo.train(&policy, &reference, &ragged(), &Rng::new(3), |step| {
        assert!((step.batch.ordering.loss - LN_2).abs() < 1e-15);
        assert_eq!((step.batch.ordering.accuracy, step.batch.ordering.margin), (None, 0.0));
        assert_eq!((step.batch.chosen, step.batch.rejected), (0.0, 0.0));
        assert!(step.gradient_norm > 0.0);
        steps.push((step.step, step.epoch, step.epoch_done));
        Ok(())
    });
    assert_eq!(diverged.unwrap(), None);
    let want = [(1, 1, false), (2, 1, false), (3, 1, true), (4, 2, false), (5, 2, false), (6, 2, true)];
    assert_eq!(steps, want);
    assert_eq!(bits(&policy), bits(&reference));
}

#[test]
fn dpo_learns_its_pairs_and_repeats_itself_bit_for_bit() {
    let train = |seed| {
        let policy = model(1);
        let dpo = Dpo { beta: 0.5, epochs: 40, batch: 2, lr: 1e-3 };
        assert_eq!(dpo.train(&policy, &model(1), &ragged(), &Rng::new(seed), |_| Ok(())).unwrap(), None);
        policy
    };
    let policy = train(3);
    assert_eq!(bits(&policy), bits(&train(3)));
    assert_ne!(bits(&policy), bits(&train(4))); // Another order of the pairs.
    let pairs = ragged();
    let pairs: Vec<_> = pairs.iter().collect();
    let [policy, reference] = [policy, model(1)].map(|model| PairLogProbs::of(&model, &pairs).unwrap());
    let metrics = PairMetrics::of(&policy, &reference, 0.5).unwrap().unwrap();
    assert_eq!(metrics.ordering.accuracy, Some(1.0));
    assert!(metrics.ordering.loss < 0.3 && metrics.chosen > metrics.rejected, "{metrics:?}");
}

/// On many noisy preferences by a known reward, DPO ends at π* of that reward without having seen it.
#[test]
fn dpo_ends_near_the_closed_form() {
    let (reference, beta) = (model(1), 0.5);
    let reward = [0.0, 0.5, 0.0, -0.5, 1.0, 0.5];
    let prompt = vec![1, 3];
    let mut rng = Rng::new(9);
    let sampling = Sampling { end: u32::MAX, ..Sampling::policy(1) };
    let rollouts = sample(&reference, &[&prompt], 60_000, &sampling, &rng.fork("responses")).unwrap();
    let pairs: Vec<PreferencePair> = rollouts
        .chunks_exact(2)
        .filter(|two| two[0].tokens != two[1].tokens)
        .map(|two| {
            let [a, b] = [0, 1].map(|i| two[i].tokens.clone());
            let first_wins = rng.uniform() < sigmoid(reward[a[0] as usize] - reward[b[0] as usize]);
            let (chosen, rejected) = if first_wins { (a, b) } else { (b, a) };
            PreferencePair { prompt: prompt.clone(), chosen, rejected }
        })
        .collect();
    let answers = |model: &Gpt| {
        let responses: Vec<[u32; 1]> = (0..V as u32).map(|token| [token]).collect();
        let logprobs = seq_logprob(model, &[&prompt; V], &responses).unwrap();
        log_softmax(&logprobs.to_vec1::<f32>().unwrap().into_iter().map(f64::from).collect::<Vec<_>>())
    };
    let star = probabilities(&log_optimal_policy(&answers(&reference), &reward, beta));
    let policy = reference.duplicate().unwrap();
    let distance = || total_variation(&probabilities(&answers(&policy)), &star);
    let before = distance();
    let dpo = Dpo { beta, epochs: 4, batch: 256, lr: 1e-3 };
    assert_eq!(dpo.train(&policy, &reference, &pairs, &rng.fork("dpo"), |_| Ok(())).unwrap(), None);
    let after = distance();
    assert!(before > 0.2 && after < 0.05, "{before} to {after}");
}

/// Whatever the prompt, responses are ranked by how many 4s they have.
fn rankings(n: u64) -> Vec<Ranking> {
    (0..n)
        .map(|i| {
            let mut rng = Rng::new(11).fork(i);
            let mut response = || (0..4).map(|_| 3 + rng.below(3) as u32).chain([2]).collect::<Vec<_>>();
            let mut responses = vec![response(), response(), response(), response()];
            responses.sort_by_key(|response| std::cmp::Reverse(response.iter().filter(|&&t| t == 4).count()));
            Ranking { prompt: vec![1, 3 + (i % 3) as u32], responses }
        })
        .collect()
}

#[test]
fn a_reward_model_learns_what_ranks() {
    let model = model(1).with_score_head(&Rng::new(2)).unwrap();
    let all = rankings(240);
    let (train, held_out) = all.split_at(200);
    let before = ordering(&model, held_out).unwrap().unwrap();
    let modelling = RewardModelling { epochs: 6, batch: 16, lr: 3e-3 };
    let mut last = None;
    let diverged = modelling.train(&model, train, &Rng::new(3), |step| {
        last = Some((step.step, step.epoch, step.epoch_done));
        Ok(())
    });
    assert_eq!(diverged.unwrap(), None);
    assert_eq!(last, Some((6 * 13, 6, true)));
    let after = ordering(&model, held_out).unwrap().unwrap();
    // Ties of the count are ranked at random, so that no model is right about them.
    assert!(after.accuracy.unwrap() > before.accuracy.unwrap() + 0.2, "{before:?} to {after:?}");
    assert!(after.loss < before.loss, "{before:?} to {after:?}");
    let prompts = [[1, 3]; 2];
    let scores = score(&model, &prompts, &[[4, 4, 4, 4, 2], [3, 5, 3, 5, 2]]).unwrap();
    assert!(scores[0] > scores[1] + 1.0, "{scores:?}");
}

/// Scored once per batch or once per pair, the comparisons are the same.
#[test]
fn rankings_are_compared_as_their_pairs_are() {
    let model = model(1).with_score_head(&Rng::new(2)).unwrap();
    let mut rankings = rankings(5);
    rankings[2].responses[3] = rankings[2].responses[0].clone(); // Not preferred to itself.
    rankings[3].responses.truncate(1); // Nothing to compare.
    let pairs: Vec<_> = rankings.iter().flat_map(Ranking::pairs).collect();
    let margins: Vec<f64> = pairs
        .iter()
        .map(|pair| {
            let scores = score(&model, &[&pair.prompt; 2], &[&pair.chosen, &pair.rejected]).unwrap();
            scores[0] - scores[1]
        })
        .collect();
    let whole = ordering(&model, &rankings).unwrap().unwrap();
    assert!((whole.margin - margins.iter().sum::<f64>() / margins.len() as f64).abs() < 1e-12);
    let wins = margins.iter().filter(|&&margin| margin > 0.0).count();
    let ties = margins.iter().filter(|&&margin| margin == 0.0).count();
    assert_eq!(whole.accuracy, Some(wins as f64 / (margins.len() - ties) as f64));
}

#[test]
fn divergence_is_reported_with_its_step() {
    let dpo = Dpo { beta: 0.5, epochs: 20, batch: 2, lr: 1e30 };
    let diverged = dpo.train(&model(1), &model(1), &ragged(), &Rng::new(3), |_| Ok(())).unwrap();
    assert!(diverged.is_some_and(|diverged| diverged.step <= 3));
    let model = model(1).with_score_head(&Rng::new(2)).unwrap();
    let modelling = RewardModelling { epochs: 20, batch: 4, lr: 1e30 };
    let diverged = modelling.train(&model, &rankings(12), &Rng::new(3), |_| Ok(())).unwrap();
    assert!(diverged.is_some_and(|diverged| diverged.step <= 3));
}

#[test]
fn nothing_to_learn_from_is_an_error() {
    let dpo = Dpo { beta: 0.5, epochs: 1, batch: 2, lr: 1e-3 };
    let error = dpo.train(&model(1), &model(1), &[], &Rng::new(3), |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("no preference pairs"), "{error}");
    let model = model(1).with_score_head(&Rng::new(2)).unwrap();
    let modelling = RewardModelling { epochs: 1, batch: 4, lr: 1e-3 };
    let alone = Ranking { prompt: vec![1], responses: vec![vec![3, 2]; 2] };
    let error = modelling.train(&model, &[alone], &Rng::new(3), |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("no comparisons"), "{error}");
}
