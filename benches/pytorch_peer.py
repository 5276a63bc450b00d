"""The engine's work in PyTorch, written as well as we know how, to be timed beside `cargo bench`.

    pip install torch
    cargo bench                               # the engine
    python benches/pytorch_peer.py            # this file, rows of the same names
    python benches/pytorch_peer.py --json     # one {"row", "median_ms", "min_ms", "runs"} per line
    python benches/pytorch_peer.py --compile  # further rows under torch.compile

Run both on an idle machine with as many threads each (--threads, 2 by default): the ratios carry over to other
machines, the milliseconds do not. Nothing here is slow on purpose. Attention is the fused SDPA kernel, the optimizer
is whichever AdamW is fastest on this CPU, only the responses' logits are computed, evaluation runs in inference mode,
no Python loop runs over the rows of a batch, and every row is also timed with the better algorithm where PyTorch
users have one (a KV cache with a shared prompt in place of recomputing the prefix). Two settings from outside can
help PyTorch, so try them before quoting a ratio: one thread (small tensors may lose more than a second one gives), and
keeping glibc from returning every large buffer to the kernel,

    MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=1073741824 python benches/pytorch_peer.py

The model is GPT-2 in shape: width 64, 4 layers, 4 heads, 32 words, 48 positions, 205 k parameters. The rows:

train_step                    64 x 23 tokens: forward, cross-entropy at every position, backward, clip, AdamW
train_step_ragged             the same tensor, lengths 12 to 23 in turn, the rest padding without loss
seq_logprob_forward           128 x (prompt 8 + response 16): sum of the response's token log-probs, no gradient
seq_logprob_forward_backward  the same with gradients of every parameter
sample_recompute              16 prompts of 8 tokens x 8 responses of 16, temperature 1, prefix recomputed per token
sample_recompute_eos          the same, but a response leaves the batch at its end token, at most 16 tokens
sample_kv_cache               the same as sample_recompute through a preallocated cache, each prompt computed once
grpo_step                     sample_recompute; old and reference log-probs; 2 updates with clipped ratios and k3
grpo_step_kv_cache            the same by sample_kv_cache, which has the old log-probs already

Except in the two rows that say otherwise no response stops early and no token is padding: the work is equal for all.
"""

import argparse
import copy
import json
import statistics
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

TRAIN_BATCH, TRAIN_TOKENS = 64, 23
PROMPTS, GROUP, PROMPT, RESPONSE = 16, 8, 8, 16  # 16 prompts x 8 responses; 8 + 16 tokens
EOS, IGNORE = 2, -100
CLIP_NORM, CLIP_RATIO, KL_BETA, INNER_UPDATES = 1.0, 0.2, 0.04, 2

# ---- model -----------------------------------------------------------------------------------------------------


@dataclass
class Config:
    vocab_size: int = 32
    n_positions: int = 48
    n_embd: int = 64
    n_layer: int = 4
    n_head: int = 4


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x, cache=None, start=0):
        B, T, C = x.shape
        qkv = self.c_attn(x).view(B, T, 3, self.n_head, C // self.n_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, nh, T, hs)
        if cache is not None:
            cache[0, :, :, start : start + T] = k
            cache[1, :, :, start : start + T] = v
            k, v = cache[:, :, :, : start + T]
        # One new token may look at everything before it; more than one are a prompt from position 0.
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd)

    def forward(self, x, cache=None, start=0):
        x = x + self.attn(self.ln_1(x), cache, start)
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.h = nn.ModuleList(Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, cache=None, start=0, first=0):
        """Logits of the positions from `first` on (-1: the last alone), through the tied head."""
        x = self.wte(ids) + self.wpe.weight[start : start + ids.shape[1]]  # (B, T, C)
        for i, block in enumerate(self.h):
            x = block(x, None if cache is None else cache[i], start)
        return F.linear(self.ln_f(x[:, first:]), self.wte.weight)  # (B, T - first, V)

    def new_cache(self, batch, length):
        c = self.config
        return torch.empty(c.n_layer, 2, batch, c.n_head, length, c.n_embd // c.n_head)


# ---- log-probs and sampling ------------------------------------------------------------------------------------


def token_logprobs(model, ids):
    """log pi(y_t | x, y_<t) of every response token. (B, PROMPT + G) -> (B, G)"""
    logits = model(ids[:, :-1], first=PROMPT - 1)  # (B, G, V)
    return F.log_softmax(logits, -1).gather(-1, ids[:, PROMPT:, None]).squeeze(-1)


@torch.inference_mode()
def sample_recompute(model, prompts):
    """GROUP responses to each prompt, the whole prefix through the model for every token. -> (B, PROMPT + G)"""
    ids = prompts.repeat_interleave(GROUP, 0)
    for _ in range(RESPONSE):
        logits = model(ids, first=-1)[:, 0]  # (B, V)
        ids = torch.cat([ids, torch.multinomial(logits.softmax(-1), 1)], 1)
    return ids


@torch.inference_mode()
def sample_recompute_eos(model, prompts):
    """As `sample_recompute`, with finished responses taken out of the batch; EOS fills what they leave."""
    B = len(prompts) * GROUP
    ids = torch.full((B, PROMPT + RESPONSE), EOS)
    ids[:, :PROMPT] = prompts.repeat_interleave(GROUP, 0)
    alive = torch.arange(B)
    for t in range(PROMPT, PROMPT + RESPONSE):
        logits = model(ids[alive, :t], first=-1)[:, 0]
        token = torch.multinomial(logits.softmax(-1), 1).squeeze(1)
        ids[alive, t] = token
        alive = alive[token != EOS]
        if len(alive) == 0:
            break
    return ids


@torch.inference_mode()
def sample_kv_cache(model, prompts):
    """As `sample_recompute`, one new position per token. -> ids (B, PROMPT + G), log-probs (B, G)"""
    P, B = len(prompts), len(prompts) * GROUP
    shared = model.new_cache(P, PROMPT)
    logits = model(prompts, shared, first=-1)[:, 0].repeat_interleave(GROUP, 0)  # (B, V)
    cache = model.new_cache(B, PROMPT + RESPONSE)
    cache[..., :PROMPT, :] = shared.repeat_interleave(GROUP, 2)
    ids = torch.empty(B, PROMPT + RESPONSE, dtype=torch.long)
    ids[:, :PROMPT] = prompts.repeat_interleave(GROUP, 0)
    logprobs = torch.empty(B, RESPONSE)
    for i in range(RESPONSE):
        t = PROMPT + i
        logp = logits.log_softmax(-1)
        ids[:, t : t + 1] = torch.multinomial(logp.exp(), 1)
        logprobs[:, i : i + 1] = logp.gather(1, ids[:, t : t + 1])
        if i + 1 < RESPONSE:
            logits = model(ids[:, t : t + 1], cache, start=t)[:, 0]
    return ids, logprobs


# ---- training --------------------------------------------------------------------------------------------------


def fastest_adamw(model, lr):
    """AdamW in the implementation that is quickest for this model on this CPU, and its name."""

    def milliseconds(kind):  # the minimum, which a busy machine disturbs least
        twin = copy.deepcopy(model)
        for p in twin.parameters():
            p.grad = torch.ones_like(p)
        return measure(torch.optim.AdamW(twin.parameters(), lr=lr, **{kind: True}).step, runs=30)[1]

    kind = min(("fused", "foreach"), key=milliseconds)
    return torch.optim.AdamW(model.parameters(), lr=lr, **{kind: True}), kind


def update(model, optimizer, loss):
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    optimizer.step()


def train_step(model, optimizer, inputs, targets):
    logits = model(inputs)  # (B, T, V)
    update(model, optimizer, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE))


def advantages(responses):
    """Group-normalised rewards; the share of even tokens stands in for a verifier. (B, G) -> (B, 1)"""
    rewards = (responses % 2 == 0).float().mean(1).view(PROMPTS, GROUP)
    centred = rewards - rewards.mean(1, keepdim=True)
    return (centred / (rewards.std(1, keepdim=True) + 1e-4)).view(-1, 1)


def grpo_step(policy, reference, optimizer, prompts, cached=False):
    if cached:
        ids, old = sample_kv_cache(policy, prompts)
    else:
        ids = sample_recompute(policy, prompts)
        with torch.inference_mode():
            old = token_logprobs(policy, ids)
    with torch.inference_mode():
        ref = token_logprobs(reference, ids)
    # Tensors made in inference mode cannot enter autograd: copies can.
    ids, old, ref = ids.clone(), old.clone(), ref.clone()
    advantage = advantages(ids[:, PROMPT:])
    for _ in range(INNER_UPDATES):
        logp = token_logprobs(policy, ids)  # (B, G)
        ratio = (logp - old).exp()
        surrogate = torch.min(ratio * advantage, ratio.clamp(1 - CLIP_RATIO, 1 + CLIP_RATIO) * advantage)
        k3 = (ref - logp).exp() - (ref - logp) - 1
        update(policy, optimizer, -(surrogate - KL_BETA * k3).mean(1).mean())


# ---- timing ----------------------------------------------------------------------------------------------------


def measure(work, runs, warmup=5):
    """Median and minimum of `runs` timed calls, in milliseconds."""
    for _ in range(warmup):
        work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), min(times)


def check(model, prompts):
    """The sampler with the cache must score what it drew as the plain forward does."""
    ids, cached = sample_kv_cache(model, prompts)
    with torch.inference_mode():
        difference = (token_logprobs(model, ids) - cached).abs().max().item()
    if not difference < 1e-5:
        raise SystemExit(f"cached log-probs differ from the plain forward by {difference:.1e}")


def make_rows(model, optimizer, reference, suffix=""):
    """{name: work}. Under torch.compile, whose shapes are fixed, only the rows of fixed shape."""
    V = model.config.vocab_size
    tokens = torch.randint(3, V, (TRAIN_BATCH, TRAIN_TOKENS + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    lengths = 12 + torch.arange(TRAIN_BATCH) % 12  # 12 to 23: 17.25 on average
    padding = torch.arange(TRAIN_TOKENS) >= lengths[:, None]
    ragged = inputs.masked_fill(padding, 0), targets.masked_fill(padding, IGNORE)
    prompts = torch.randint(3, V, (PROMPTS, PROMPT))
    ids = torch.randint(3, V, (PROMPTS * GROUP, PROMPT + RESPONSE))

    @torch.inference_mode()
    def forward():
        return token_logprobs(model, ids).sum(1)

    def forward_backward():
        model.zero_grad(set_to_none=True)
        token_logprobs(model, ids).sum(1).mean().backward()

    rows = {
        "train_step": lambda: train_step(model, optimizer, inputs, targets),
        "train_step_ragged": lambda: train_step(model, optimizer, *ragged),
        "seq_logprob_forward": forward,
        "seq_logprob_forward_backward": forward_backward,
    }
    if not suffix:
        check(model, prompts)
        # The reference is never trained: about one sampled word in 32 is the end token, before or after other rows.
        rows |= {
            "sample_recompute": lambda: sample_recompute(reference, prompts),
            "sample_recompute_eos": lambda: sample_recompute_eos(reference, prompts),
            "sample_kv_cache": lambda: sample_kv_cache(reference, prompts),
            "grpo_step": lambda: grpo_step(model, reference, optimizer, prompts),
            "grpo_step_kv_cache": lambda: grpo_step(model, reference, optimizer, prompts, cached=True),
        }
    return {name + suffix: work for name, work in rows.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="default 2")
    parser.add_argument("--runs", type=int, default=30, help="timed runs of each row, after 5 to warm up; default 30")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rows whose name contains TEXT")
    parser.add_argument("--json", action="store_true", help="JSON lines in place of the table")
    parser.add_argument("--compile", action="store_true", help="further rows under torch.compile (needs g++)")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = GPT(Config())
    reference = copy.deepcopy(model)
    optimizer, kind = fastest_adamw(model, lr=3e-5)
    rows = make_rows(model, optimizer, reference)
    if args.compile:
        rows |= make_rows(torch.compile(model), optimizer, reference, suffix="_compiled")

    if not args.json:
        parameters = sum(p.numel() for p in model.parameters())
        print(f"torch {torch.__version__}, {args.threads} threads, {parameters:,} parameters, {kind} AdamW\n")
        print(f"{'row':<38}{'median ms':>10}{'min ms':>10}{'runs':>6}")
    for row, work in rows.items():
        if args.only not in row:
            continue
        median, best = measure(work, args.runs)
        if args.json:
            result = {"row": row, "median_ms": round(median, 3), "min_ms": round(best, 3), "runs": args.runs}
            print(json.dumps(result), flush=True)
        else:
            print(f"{row:<38}{median:>10.2f}{best:>10.2f}{args.runs:>6}", flush=True)


if __name__ == "__main__":
    main()
