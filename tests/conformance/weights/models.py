"""Small random checkpoints, and attention logits computed from them in plain NumPy."""

import json

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

#: The pairs of n channels in each layout.
PAIRS = {
    "half": lambda n: [(i, i + n // 2) for i in range(n // 2)],
    "interleaved": lambda n: [(2 * i, 2 * i + 1) for i in range(n // 2)],
}
POSITIONS = (0, 1, 2, 5, 40)
LLAMA = {
    "model_type": "llama",
    "hidden_size": 24,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 11,
}


def numbers(seed, *shape):
    """Return random weights."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def llama(prefix="model.layers.{}.self_attn.", names="q k v o", bias=False, **facts):
    """Return the attention tensors of a Llama, under other names if these are given."""
    c = LLAMA | facts
    d, hidden = c["head_dim"], c["hidden_size"]
    rows = [c["num_attention_heads"] * d, c["num_key_value_heads"] * d]
    words = [f"{n}_proj" for n in "qkvo"] if names == "q k v o" else names.split()
    tensors = {}
    for layer in range(c["num_hidden_layers"]):
        at = prefix.format(layer)
        for i, (word, n) in enumerate(zip(words[:3], (*rows, rows[1]), strict=True)):
            tensors[f"{at}{word}.weight"] = numbers(10 * layer + i, n, hidden)
            if bias:
                tensors[f"{at}{word}.bias"] = numbers(10 * layer + i + 5, n)
        tensors[f"{at}{words[3]}.weight"] = numbers(10 * layer + 4, hidden, rows[0])
    tensors["model.embed_tokens.weight"] = numbers(99, c["vocab_size"], hidden)
    return tensors


def write(folder, tensors, config=LLAMA, name="model.safetensors"):
    """Write a checkpoint with its configuration, and return the path of the weights."""
    folder.mkdir(exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / name, metadata={"format": "pt", "made": "by a test"})
    return folder / name


def rotate(x, layout, first=0, count=None, base=10000.0):
    """Rotate heads (n, S, d) pair by pair."""
    count = x.shape[-1] - first if count is None else count
    y = x.copy()
    for k, (i, j) in enumerate(PAIRS[layout](count)):
        angle = np.array(POSITIONS) * base ** (-2 * k / count)
        a, b = x[..., first + i], x[..., first + j]
        y[..., first + i] = a * np.cos(angle) - b * np.sin(angle)
        y[..., first + j] = b * np.cos(angle) + a * np.sin(angle)
    return y


def heads_of(weight, d, seed=0, bias=None):
    """Return random inputs times the weight, as heads (n, S, d)."""
    w = weight.double().numpy()
    x = np.random.default_rng(seed).standard_normal((len(POSITIONS), w.shape[1]))
    y = x @ w.T + (0.0 if bias is None else bias.double().numpy())
    return y.reshape(len(x), -1, d).swapaxes(0, 1)


def logits(q, k):
    """Return q . k with as many key heads as query heads."""
    return q @ np.repeat(k, len(q) // len(k), axis=0).swapaxes(1, 2)


def tiny(name, **fields):
    """Return a causal language model of transformers with random weights, biases and norms."""
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**fields)
    config._attn_implementation = "eager"
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn_like(p))
    return model
