"""Golden values of the losses, computed by TRL's own trainers.

Made with trl 1.16.0, torch 2.15.0, Python 3.11 (CPU).

    python tests/golden/make_losses.py                  # rewrite losses.json beside this script

Each loss is the method `compute_loss` or `_compute_loss` of a TRL trainer, called on a stand-in for the trainer
that has nothing but its hyperparameters, and on a stand-in for the model that returns given log-probabilities
or scores. What is recorded is the value and its gradient with respect to these, in float64.

dpo           DPOTrainer, loss type "sigmoid"
reward        RewardTrainer
ppo           RLOOTrainer: its loss is PPO's clipped surrogate with the probability ratio of the whole response
grpo          GRPOTrainer, loss type "grpo": token ratios, k3, mean over tokens and then over responses

Advantages enter TRL's losses ready made. They are computed here as RLOOTrainer and GRPOTrainer document: for ppo,
reward minus beta times the log-ratio of the whole response, centred over the batch; for grpo, reward minus the
group's mean, divided by its sample standard deviation plus 1e-4.
"""

import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import torch
import trl
from torch.nn.utils.rnn import pad_sequence
from trl import DPOTrainer, GRPOTrainer, RewardTrainer, RLOOTrainer

from make_golden import write_json

HERE = Path(__file__).parent
VERSIONS = {"torch": torch.__version__.split("+")[0], "trl": trl.__version__}
LENGTHS = [1, 8, 2, 5, 3, 1, 4, 2]  # of eight responses
CLIP = 0.2

ONE_PROCESS = SimpleNamespace(
    device="cpu", num_processes=1, sync_gradients=False,
    gather=lambda x: x, gather_for_metrics=lambda x: x, reduce=lambda x, reduction: x,
)  # fmt: skip


def stand_in(**settings):
    """What the methods ask of a trainer, evaluation mode: no accumulation, one process."""
    return SimpleNamespace(
        model=SimpleNamespace(training=False), accelerator=ONE_PROCESS, aux_loss_enabled=False,
        _metrics={"eval": defaultdict(list)}, _total_train_tokens=0, _tp_size=1, **settings,
    )  # fmt: skip


def padded(rows):
    """(B, longest), zero where there is no token, and its mask."""
    return pad_sequence(rows, batch_first=True), pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)


def ragged(values, rows):
    """The inverse: rows without their padding, one after the other."""
    return torch.cat([value[: len(row)] for value, row in zip(values, rows)]).tolist()


def rows_of(generator, lengths, low, high):
    return [low + (high - low) * torch.rand(n, generator=generator, dtype=torch.float64) for n in lengths]


def near(generator, rows, spread):
    """Log-probabilities of another policy: the same, moved by a normal draw and never above 0."""
    noise = [torch.randn(len(row), generator=generator, dtype=torch.float64) for row in rows]
    return [(row + spread * by).clamp(max=0) for row, by in zip(rows, noise)]


def dpo(policy, reference, lengths, beta):
    """The first half of the rows is chosen, the second rejected, as TRL stacks them."""
    logp, mask = padded(policy)
    logp.requires_grad_()
    blank = torch.zeros(len(policy), 1, dtype=torch.float64)
    mask_with_prompt = torch.cat([blank, mask], dim=1).long()
    ids = torch.ones_like(mask_with_prompt)
    outputs = SimpleNamespace(
        log_probs=logp, entropy=torch.zeros_like(logp), mean_logits=torch.zeros_like(logp),
        is_top1=torch.zeros_like(logp).bool(),
    )  # fmt: skip
    ref = torch.stack([row.sum() for row in reference]).chunk(2)
    trainer = stand_in(
        ld_alpha=None, precompute_ref_logps=True, f_divergence_type="reverse_kl", loss_types=["sigmoid"],
        loss_weights=[1.0], beta=beta, use_weighting=False,
    )  # fmt: skip
    inputs = {
        "input_ids": ids, "attention_mask": ids, "completion_mask": mask_with_prompt,
        "ref_chosen_logps": ref[0], "ref_rejected_logps": ref[1],
    }  # fmt: skip
    loss = DPOTrainer._compute_loss(trainer, lambda **_: outputs, inputs, return_outputs=False)
    loss.backward()
    names = ["chosen", "rejected", "margins", "accuracies"]
    metrics = {name: trainer._metrics["eval"][f"rewards/{name}"][0] for name in names}
    return {
        "beta": beta, "lengths": lengths,
        "logp": ragged(logp.detach(), policy), "reference": torch.cat(reference).tolist(),
        "loss": loss.item(), "gradient": ragged(logp.grad, policy), "rewards": metrics,
    }  # fmt: skip


def reward(scores, pairs):
    scores = torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    better, worse = (list(side) for side in zip(*pairs))
    logits = torch.cat([scores[better], scores[worse]])[:, None]
    trainer = stand_in(args=SimpleNamespace(center_rewards_coefficient=None))
    loss = RewardTrainer.compute_loss(trainer, lambda **_: SimpleNamespace(logits=logits), {"attention_mask": None})
    loss.backward()
    metrics = {name: trainer._metrics["eval"][name][0] for name in ("accuracy", "margin")}
    return {
        "scores": scores.tolist(), "comparisons": pairs,
        "loss": loss.item(), "gradient": scores.grad.tolist(), **metrics,
    }  # fmt: skip


def policy_gradient(trainer_class, policy, advantages, beta, **inputs):
    """RLOO's or GRPO's loss of a ragged batch; returns its value and gradient."""
    logp, mask = padded(policy)
    logp.requires_grad_()
    one = torch.ones(len(policy), 1)
    trainer = stand_in(
        epsilon_low=CLIP, epsilon_high=CLIP, beta=beta, loss_type="grpo", importance_sampling_level="token",
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, use_vllm=False, _entropy_bonus_enabled=False,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False), max_completion_length=max(LENGTHS),
        _get_per_token_logps_and_entropies=lambda *_, **__: (logp, torch.zeros_like(logp), None),
    )  # fmt: skip
    inputs |= {"prompt_ids": one, "prompt_mask": one, "completion_ids": mask, "completion_mask": mask}
    loss = trainer_class._compute_loss(trainer, None, inputs | {"advantages": advantages})
    loss.backward()
    clipped = trainer._metrics["eval"]["clip_ratio/region_mean"][0]
    return {
        "lengths": LENGTHS, "clip": CLIP, "logp": ragged(logp.detach(), policy), "advantages": advantages.tolist(),
        "loss": loss.item(), "gradient": ragged(logp.grad, policy), "clip_fraction": clipped,
    }  # fmt: skip


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(3)
    policy = rows_of(generator, LENGTHS, -3.0, -0.05)
    old, reference = near(generator, policy, 0.15), near(generator, policy, 0.4)
    rewards = torch.tensor([1.1, 0.1, 0.0, 1.1, -2.0, 0.5, 0.3, 0.7], dtype=torch.float64)

    far = [row.clone() for row in policy]
    far[0][0], far[5][0] = -1e4, -1e4  # one pair's chosen, another's rejected response has become unthinkable
    dpos = [dpo(policy, reference, LENGTHS, beta) for beta in (0.1, 0.5, 2.0)] + [dpo(far, reference, LENGTHS, 0.5)]

    per_response = lambda rows: torch.stack([row.sum() for row in rows])
    beta = 0.5
    penalised = rewards - beta * (per_response(old) - per_response(reference))
    ppo = policy_gradient(RLOOTrainer, policy, penalised - penalised.mean(), beta, old_logps=per_response(old))

    group = 4
    grouped = rewards.view(-1, group)
    deviation = grouped.std(dim=1, keepdim=True) + 1e-4  # torch.std divides by n - 1
    grpo = policy_gradient(
        GRPOTrainer, policy, ((grouped - grouped.mean(dim=1, keepdim=True)) / deviation).flatten(), 0.04,
        old_per_token_logps=padded(old)[0], ref_per_token_logps=padded(reference)[0],
    )  # fmt: skip

    scores = [0.3, -0.2, 1.0, 0.05, 2.0, -2.5, 0.1, -0.1]
    pairs = [(4 * g + i, 4 * g + j) for g in (0, 1) for i, j in combinations(range(4), 2)]
    batch = {"rewards": rewards.tolist(), "old": torch.cat(old).tolist(), "reference": torch.cat(reference).tolist()}
    write_json(HERE / "losses.json", {
        "definition": {
            "logp, old, reference, gradient": "one number per token, response after response, without padding",
            "dpo": "the first half of the responses is chosen, the second rejected: pair i is (i, i + 4)",
            "reward": "scores of two rankings of four and all comparisons in them, as (winner, loser)",
            "ppo": "the reward is penalised by beta times the log-ratio old - reference of the whole response",
            "grpo": "groups of consecutive responses; beta weighs k3",
        },
        "versions": VERSIONS, "dpo": dpos,
        "reward": [reward(scores, pairs), reward([1e4, -1e4, 0.0], [(0, 1), (1, 0), (2, 2)])],
        "ppo": {"beta": beta} | batch | ppo, "grpo": {"beta": 0.04, "group": group} | batch | grpo,
    })  # fmt: skip


if __name__ == "__main__":
    main()
