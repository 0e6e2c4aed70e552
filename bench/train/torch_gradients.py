#!/usr/bin/env python3
"""Gradients of PyTorch beside ours, on the same weights and the same batch.

    torch_gradients.py FOLDER        # as src/train/dump_test.cpp writes it; fails when a tensor is more than 1e-5 apart

Differences are relative to the largest gradient of a tensor. The model is written down a second time here, from its
weights' names; it shares nothing with ours.
"""
import json
import os
import sys

import numpy
import torch
import torch.nn.functional as F

LIMIT = 1e-5


def read(folder, name, kind, shape=None):
    values = torch.from_numpy(numpy.fromfile(os.path.join(folder, name), dtype=kind))
    return values.reshape(shape) if shape else values


def turned(x, base=10000.0):
    """Rotary positions: pairs (i, i + half) of each head; x is batch, heads, sequence, width."""
    half = x.shape[-1] // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), rates)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    low, high = x[..., :half], x[..., half:]
    return torch.cat((low * cos - high * sin, low * sin + high * cos), -1)


def norm(model, weights, name, x):
    weight, bias = weights[name + ".weight"], weights.get(name + ".bias")
    if model["rms_norm"]:
        return F.rms_norm(x, (model["hidden"],), weight, 1e-5)
    return F.layer_norm(x, (model["hidden"],), weight, bias, 1e-5)


def linear(weights, name, x):
    return F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))


def attention(model, weights, name, x):
    batch, sequence, _ = x.shape
    heads, kv_heads, width = model["heads"], model["kv_heads"], model["head_dim"]
    qkv = linear(weights, name + ".qkv", norm(model, weights, name + ".norm", x))
    parts = qkv.split((heads * width, kv_heads * width, kv_heads * width), -1)
    q, k, v = (part.view(batch, sequence, -1, width).transpose(1, 2) for part in parts)
    if model["rotary"]:
        q, k = turned(q), turned(k)
    k, v = (part.repeat_interleave(heads // kv_heads, 1) for part in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return linear(weights, name + ".output", out.transpose(1, 2).reshape(batch, sequence, -1))


def mlp(model, weights, name, x):
    inner = linear(weights, name + ".input", norm(model, weights, name + ".norm", x))
    if model["gated_mlp"]:
        gate, value = inner.chunk(2, -1)
        return linear(weights, name + ".output", F.silu(gate) * value)
    return linear(weights, name + ".output", F.gelu(inner, approximate="tanh"))


def loss_of(model, weights, tokens, labels):
    x = F.embedding(tokens, weights["embedding.tokens"])
    if "embedding.positions" in weights:
        x = x + weights["embedding.positions"][: tokens.shape[1]]
    for layer in range(model["layers"]):
        x = x + attention(model, weights, f"layers.{layer}.attention", x)
        x = x + mlp(model, weights, f"layers.{layer}.mlp", x)
    table = weights["embedding.tokens" if model["tied_embeddings"] else "head.weight"]
    logits = F.linear(norm(model, weights, "head.norm", x), table)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def gradients_of(index, weights, batch, kind):
    """Loss and gradients by PyTorch, computed in a number format."""
    own = {name: weight.to(kind, copy=True).requires_grad_() for name, weight in weights.items()}
    loss = loss_of(index["model"], own, *batch)
    loss.backward()
    return {"loss": loss.detach(), **{name: weight.grad for name, weight in own.items()}}


def worst(found, expected):
    """The largest difference of all tensors, and the tensor's name."""
    differences = []
    for name, values in expected.items():
        apart = ((found[name].double() - values.double()).abs().max() / values.abs().max()).item()
        differences.append((apart if apart == apart else float("inf"), name))
    return max(differences)


def compare(folder):
    """Ours with PyTorch's in fp32, ours with PyTorch's in fp64, and those two with each other."""
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    weights, ours = {}, {"loss": torch.tensor(index["loss"])}
    for tensor in index["tensors"]:
        name = tensor["name"]
        shape = [tensor["rows"], tensor["columns"]] if tensor["columns"] > 1 else [tensor["rows"]]
        weights[name] = read(folder, name + ".weights", "<f4", shape)
        ours[name] = read(folder, name + ".gradients", "<f4", shape)
    shape = [index["samples"], index["sequence"]]
    batch = [read(folder, name, "<i4", shape).long() for name in ("tokens", "labels")]
    single = gradients_of(index, weights, batch, torch.float32)
    double = gradients_of(index, weights, batch, torch.float64)
    return worst(ours, single), worst(ours, double), worst(single, double)


def main():
    torch.set_flush_denormal(True)
    failed = False
    models = sorted(os.listdir(sys.argv[1]))
    if not models:
        sys.exit(f"{sys.argv[1]}: no model is there")
    for model in models:
        pairs = compare(os.path.join(sys.argv[1], model))
        for what, (apart, name) in zip(("PyTorch in fp32", "PyTorch in fp64", "PyTorch with itself"), pairs):
            print(f"{model}, {what}: {apart:.2g} apart at most ({name})")
        failed = failed or not max(pairs[0][0], pairs[1][0]) <= LIMIT
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
