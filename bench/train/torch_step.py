#!/usr/bin/env python3
"""Training steps of a GPT in PyTorch, on processors, as fast as PyTorch can.

    torch_step.py --layers 6 --hidden 384 --heads 6 --sequence 256 --vocab 4096 --micro-batch 8
    torch_step.py ... --ranks 2          # DistributedDataParallel over gloo, one core for each rank
    torch_step.py ... --compile          # torch.compile; whether it pays depends on the shape

Prints JSON: tokens_per_s and step_time_s of the best step, and what they were measured with. The model is that of
train_step_bench: norms before attention and MLP, GELU by tanh, learned positions, tied embedding, biases, fp32, AdamW
with a decay on matrices, clipped gradients.
"""
import argparse
import json
import os
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.attention_output = nn.Linear(hidden, hidden)
        self.mlp_norm = nn.LayerNorm(hidden)
        self.mlp_input = nn.Linear(hidden, 4 * hidden)
        self.mlp_output = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, sequence, hidden = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, sequence, 3, self.heads, hidden // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_output(out.transpose(1, 2).reshape(batch, sequence, hidden))
        return x + self.mlp_output(F.gelu(self.mlp_input(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Answers with the loss, so that DistributedDataParallel sees the whole of it."""

    def __init__(self, args):
        super().__init__()
        self.tokens = nn.Embedding(args.vocab, args.hidden)
        self.positions = nn.Embedding(args.sequence, args.hidden)
        self.layers = nn.ModuleList(Layer(args.hidden, args.heads) for _ in range(args.layers))
        self.norm = nn.LayerNorm(args.hidden)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def optimizer_of(model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    settings = {"lr": 1e-4, "betas": (0.9, 0.95)}
    try:
        return torch.optim.AdamW(groups, fused=True, **settings)
    except (RuntimeError, TypeError):  # before 2.4 there is none for processors
        return torch.optim.AdamW(groups, foreach=True, **settings)


def keep_to_core(core):
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[core % len(allowed)]})


def seconds_of_steps(rank, args):
    """Of the slowest rank, step by step."""
    torch.manual_seed(1 + rank)
    own = Gpt(args)
    model = own
    if args.compile:
        model = torch.compile(model)
    if args.ranks > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    optimizer = optimizer_of(own)
    shape = (args.micro_batch, args.sequence)
    tokens = torch.randint(args.vocab, shape)
    labels = torch.randint(args.vocab, shape)
    times = []
    for _ in range(args.warm_up + args.steps):
        if args.ranks > 1:
            torch.distributed.barrier()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=args.ranks == 1)
        model(tokens, labels).backward()
        if args.clip > 0:
            nn.utils.clip_grad_norm_(own.parameters(), args.clip, foreach=True)
        optimizer.step()
        seconds = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
        if args.ranks > 1:
            torch.distributed.all_reduce(seconds, torch.distributed.ReduceOp.MAX)
        times.append(seconds.item())
    return times[args.warm_up :]


def report(times, args):
    times = sorted(times)
    tokens = args.micro_batch * args.sequence * args.ranks
    print(
        json.dumps(
            {
                "tokens_per_s": tokens / times[0],
                "step_time_s": times[0],
                "median_step_time_s": times[len(times) // 2],
                "ranks": args.ranks,
                "threads": args.threads,
                "compiled": args.compile,
                "torch": torch.__version__,
                "instructions": torch.backends.cpu.get_cpu_capability(),
            }
        )
    )


def run(rank, args, meeting):
    # Before the first product: threads take over how their maker treats denormals.
    torch.set_flush_denormal(True)
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    if args.threads == 1:
        keep_to_core(rank)
    if args.ranks > 1:
        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=args.ranks)
    times = seconds_of_steps(rank, args)
    if rank == 0:
        report(times, args)
    if args.ranks > 1:
        torch.distributed.destroy_process_group()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("layers", 6), ("hidden", 384), ("heads", 6), ("sequence", 256), ("vocab", 4096)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--micro-batch", type=int, default=8, help="samples of a step on each rank")
    parser.add_argument("--threads", type=int, default=1, help="of each rank")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--clip", type=float, default=1.0, help="largest norm of all gradients; 0: any")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def main():
    args = arguments()
    if args.ranks == 1:
        return run(0, args, None)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (args, os.path.join(folder, "meeting")), nprocs=args.ranks)


if __name__ == "__main__":
    main()
