"""Golden values for the engine, computed by PyTorch and Hugging Face transformers.

Made with torch 2.15.0, transformers 5.24.0, tokenizers 0.23.3, safetensors 0.8.0, Python 3.11 (CPU).

    python tests/golden/make_golden.py                  # rewrite every file beside this script
    python tests/golden/make_golden.py --check DIR ..   # read what rlhf-lab wrote, compare its numbers

gpt2_tiny/         GPT2LMHeadModel, every weight and bias far from its default: config, weights, tokenizer,
                   and expected.json with logits, token log-probs, loss and gradients.
gpt2_tiny_reward/  GPT2ForSequenceClassification with one label on the same trunk: scores, ranking loss, gradients.
adamw.json         100 steps of AdamW and Adam under warm-up, cosine and clipping, on a problem in closed form.

Weights are float32. The model's expected values are evaluated in float64 on exactly those weights, so that
the file adds no rounding of its own; the optimizer runs in float32 from end to end, since its rounding is the
behaviour under test. `--check` takes a directory with config.json, model.safetensors, tokenizer.json and an
expected.json of the form written here: {"sequences": [{"ids": [..], "text": "..", "logits": [[..]]}, ..]}, with
"score" in place of "logits" for a reward model; "text" is optional.
"""

import argparse
import json
import math
import re
import sys
from itertools import combinations
from pathlib import Path

import torch
import torch.nn.functional as F
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)

HERE = Path(__file__).parent
VERSIONS = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
SPECIAL = ["<pad>", "<s>", "</s>"]
WORDS = SPECIAL + ["="] + [str(digit) for digit in range(9)]  # 13 words, id = position
PAD = 0
LENGTHS = [1, 2, 3, 5, 8, 11, 12, 12]
TOLERANCE = 1e-5


def write_json(path, value):
    """Indented JSON with every list of plain numbers or words on one line."""
    text = json.dumps(value, indent=1)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda m: " ".join(m[0].split()).replace("[ ", "[").replace(" ]", "]"), text)
    path.write_text(text + "\n")


def tiny_config(**extra):
    return GPT2Config(
        vocab_size=len(WORDS), n_positions=12, n_embd=16, n_layer=2, n_head=2,
        activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=1, eos_token_id=2, pad_token_id=PAD, **extra,
    )  # fmt: skip


@torch.no_grad()
def randomize(module, std=0.3):
    """Weights and biases ~ N(0, std^2), LayerNorm gains around 1: no term of the forward pass can hide."""
    for name, p in module.named_parameters():
        p.normal_(0.0, std)
        if "ln_" in name and name.endswith("weight"):
            p.add_(1.0)


def sequences():
    """Random ids without padding, of different lengths, drawn once for both models."""
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(1, len(WORDS), (n,), generator=generator).tolist() for n in LENGTHS]


def words(ids):
    return " ".join(WORDS[i] for i in ids)


def save(model, path):
    """The float32 checkpoint with its word-level tokenizer, as a Hugging Face directory."""
    model.save_pretrained(path, safe_serialization=True)
    (path / "generation_config.json").unlink(missing_ok=True)  # defaults only, and rlhf-lab writes none
    tokenizer = Tokenizer(WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(path / "tokenizer.json"))


def gradients(model):
    """A fingerprint of every gradient: its norm, its first values, and a product that sees any transposition."""
    return {
        name: {
            "shape": list(p.shape),
            "norm": p.grad.norm().item(),
            "first": p.grad.flatten()[:8].tolist(),
            "dot_parameter": (p.grad * p).sum().item(),
        }
        for name, p in model.named_parameters()
    }


GRADIENT = (
    "d loss / d parameter under Hugging Face names (the tied head once, as transformer.wte.weight): L2 norm,"
    " first 8 values of the flattened tensor, and sum(gradient * parameter)"
)


def make_language_model(path):
    torch.manual_seed(0)
    model = GPT2LMHeadModel(tiny_config()).eval()
    randomize(model)
    save(model, path)
    trunk = {k: v.clone() for k, v in model.transformer.state_dict().items()}

    model.double()
    rows, losses = [], []
    for ids in sequences():
        x = torch.tensor(ids)
        logits = model(input_ids=x[None]).logits[0]  # (T, V)
        logp = F.log_softmax(logits[:-1], -1).gather(-1, x[1:, None]).squeeze(-1)  # (T - 1,)
        losses.append(-logp)
        rows.append({"ids": ids, "text": words(ids), "logits": logits.tolist(), "token_logprobs": logp.tolist()})
    loss = torch.cat(losses).mean()
    loss.backward()
    definition = {
        "logits": "row t: scores of the token that follows ids[0..=t], computed in float64 from the float32 weights",
        "token_logprobs": "entry t: log_softmax(logits[t])[ids[t + 1]], one fewer than ids",
        "loss": "minus the sum of all token_logprobs of all sequences, divided by how many there are"
        f" ({sum(n - 1 for n in LENGTHS)}); a sequence of one token contributes nothing",
        "gradients": GRADIENT,
    }
    write_json(path / "expected.json", {
        "definition": definition, "versions": VERSIONS, "sequences": rows,
        "loss": loss.item(), "gradients": gradients(model),
    })  # fmt: skip
    return trunk


def make_reward_model(path, trunk):
    torch.manual_seed(1)
    model = GPT2ForSequenceClassification(tiny_config(num_labels=1)).eval()
    randomize(model.score)
    model.transformer.load_state_dict(trunk)
    save(model, path)

    model.double()
    batch = sequences()
    padded = torch.full((len(batch), max(LENGTHS)), PAD)
    for row, ids in zip(padded, batch):
        row[: len(ids)] = torch.tensor(ids)
    scores = model(input_ids=padded, attention_mask=(padded != PAD).long()).logits[:, 0]  # (B,)
    pairs = list(combinations(range(len(batch)), 2))
    better, worse = (list(side) for side in zip(*pairs))
    # Ranking alone cannot see a shift of all scores, so ln_f.bias would have no gradient to test.
    loss = -F.logsigmoid(scores[better] - scores[worse]).mean() + 0.1 * scores.pow(2).mean()
    loss.backward()
    definition = {
        "score": f"score.weight times the final hidden state of the last token, all sequences right-padded with {PAD}"
        " in one batch; computed in float64 from the float32 weights",
        "loss": f"mean of -log sigmoid(score[i] - score[j]) over the {len(pairs)} pairs i < j,"
        " plus 0.1 * mean of score[i]^2 over the sequences",
        "gradients": GRADIENT,
    }
    rows = [{"ids": ids, "text": words(ids), "score": s} for ids, s in zip(batch, scores.tolist())]
    write_json(path / "expected.json", {
        "definition": definition, "versions": VERSIONS, "sequences": rows,
        "loss": loss.item(), "gradients": gradients(model),
    })  # fmt: skip


# ---- optimizer -------------------------------------------------------------------------------------------------

STEPS, WARMUP, LR, COUPLING = 100, 10, 0.05, 0.25
RECORDED = [1, 10, 50, 100]
START = [[2.0, -1.5, 1.0, -0.5, 0.25, -0.125], [0.0, 1.25, -0.75, 0.5, -2.0]]  # two tensors, exact in float32
TARGET = [[0.5, 0.0, -1.0, -0.5, 1.5, 0.75], [-1.25, 1.0, 0.25, -0.5, -1.0]]


def schedule(step):
    """The factor on the learning rate at step = 1 .. STEPS."""
    if step <= WARMUP:
        return step / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def run_optimizer(optimizer_class, weight_decay, dtype=torch.float32):
    params = [torch.tensor(p, dtype=dtype) for p in START]
    target = torch.tensor(sum(TARGET, []), dtype=dtype)
    optimizer = optimizer_class(params, lr=LR, weight_decay=weight_decay)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: schedule(done + 1))
    lrs, norms, recorded = [], [], {}
    for step in range(1, STEPS + 1):
        p = torch.cat(params)
        gap = p.diff()  # p[i + 1] - p[i]
        grad = 4 * (p - target) ** 3
        grad[:-1] -= 2 * COUPLING * gap
        grad[1:] += 2 * COUPLING * gap
        for q, g in zip(params, grad.split([len(q) for q in params])):
            q.grad = g.clone()
        norms.append(torch.nn.utils.clip_grad_norm_(params, 1.0).item())
        lrs.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
        if step in RECORDED:
            recorded[step] = {"params": [q.tolist() for q in params]} | {
                key: [optimizer.state[q][key].tolist() for q in params] for key in ("exp_avg", "exp_avg_sq")
            }
    return {"weight_decay": weight_decay, "lr": lrs, "grad_norm": norms, "steps": recorded}


def make_optimizer(path):
    write_json(path, {
        "definition": {
            "problem": "p and t are the two tensors of start and target joined (11 values);"
            " f(p) = sum_i (p[i] - t[i])^4 + c * sum_i (p[i + 1] - p[i])^2 with c = coupling, so"
            " df/dp[i] = 4 (p[i] - t[i])^3 + 2c (p[i] - p[i - 1]) - 2c (p[i + 1] - p[i]), absent neighbours left out",
            "lr": "at step k = 1, 2, ..: base_lr * k / warmup if k <= warmup,"
            " else base_lr * (1 + cos(pi * (k - warmup) / (total - warmup))) / 2",
            "grad_norm": "L2 norm over both tensors before clipping;"
            " gradients are then multiplied by min(1, 1 / (grad_norm + 1e-6))",
            "steps": "parameters and moments after that step; betas 0.9 and 0.999, eps 1e-8, all in float32",
        },
        "versions": VERSIONS, "base_lr": LR, "warmup": WARMUP, "total": STEPS, "coupling": COUPLING,
        "start": START, "target": TARGET,
        "adamw": run_optimizer(torch.optim.AdamW, 0.01), "adam": run_optimizer(torch.optim.Adam, 0.0),
    })  # fmt: skip


# ---- reading what rlhf-lab wrote -------------------------------------------------------------------------------


@torch.no_grad()
def check(path):
    """Load a directory as any user of transformers would; True if its expected.json is reproduced."""
    expected = json.loads((path / "expected.json").read_text())["sequences"]
    architecture = json.loads((path / "config.json").read_text())["architectures"][0]
    reward = architecture.endswith("ForSequenceClassification")
    auto = AutoModelForSequenceClassification if reward else AutoModelForCausalLM
    model, info = auto.from_pretrained(path, output_loading_info=True)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path / "tokenizer.json"))

    problems = [f"{kind}: {sorted(keys)}" for kind, keys in info.items() if keys]
    if len(tokenizer) != model.config.vocab_size:
        problems.append(f"tokenizer has {len(tokenizer)} words, the model {model.config.vocab_size}")
    worst = 0.0
    for row in expected:
        ids = row["ids"]
        if "text" in row and tokenizer(row["text"])["input_ids"] != ids:
            problems.append(f"{row['text']!r} encodes to {tokenizer(row['text'])['input_ids']}, expected {ids}")
        if tokenizer.convert_tokens_to_ids(tokenizer.convert_ids_to_tokens(ids)) != ids:
            problems.append(f"ids {ids} do not survive decoding and encoding")
        got = model.eval()(input_ids=torch.tensor([ids])).logits[0]  # (T, V), or (1,) for a reward model
        want = torch.tensor([row["score"]] if reward else row["logits"])
        # A NaN must not pass: max() of Python would drop it.
        difference = (got - want).abs().max().nan_to_num(nan=math.inf).item()
        worst = max(worst, difference)
    if worst > TOLERANCE:
        problems.append(f"largest difference above {TOLERANCE:g}")
    print(f"{path}: {architecture}, {len(expected)} sequences, largest difference {worst:.2e}")
    print("\n".join(f"  {p}" for p in problems) or "  ok")
    return not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="DIR", nargs="+", type=Path, help="directories written by rlhf-lab")
    args = parser.parse_args()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)  # so that the last digits come out the same on every run
    if args.check:
        sys.exit(not all([check(path) for path in args.check]))
    trunk = make_language_model(HERE / "gpt2_tiny")
    make_reward_model(HERE / "gpt2_tiny_reward", trunk)
    make_optimizer(HERE / "adamw.json")


if __name__ == "__main__":
    main()
