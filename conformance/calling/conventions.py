"""The calling conventions of libraries, one record each.

A convention is recognised by the names of a function's parameters
(:data:`posenc_ref.conformance.calling.roles.ROLES`).  If a function has other names, its parameters
are taken in the order of the convention, and small inputs decide.
"""

from __future__ import annotations

from dataclasses import dataclass

#: The tensor layouts in which vectors are tried.
BHSD_FIRST = ("bhsd", "bshd", "sbhd", "thd", "t(hd)", "bs(hd)")
BSHD_FIRST = ("bshd", "bhsd", "sbhd", "thd", "t(hd)", "bs(hd)")
FLAT_FIRST = ("t(hd)", "thd", "bs(hd)", "bshd", "bhsd", "sbhd")


@dataclass(frozen=True)
class Convention:
    """A way in which libraries call a positional encoding."""

    name: str  #: the name for ``--signature``
    call: str  #: the signature as people write it
    users: str  #: libraries that have it
    roles: tuple[str, ...]  #: the roles of its arguments, in order
    surfaces: tuple[str, ...]  #: the surfaces on which it is judged
    layouts: tuple[str, ...] = BHSD_FIRST
    table: bool = False  #: whether arguments are rows of a table
    stub: str = ""  #: code that turns another function into this one

    @property
    def grid(self) -> bool:
        """Return whether the function takes whole grids instead of positions."""
        return self.name.endswith("-grid")

    @property
    def rotates(self) -> bool:
        """Return whether a function of this convention rotates vectors."""
        return self.surfaces[-1] == "apply"


def _stub(signature: str, result: str, body: str = "    return your_code(...)") -> str:
    return f"def {signature}:\n{body}  # {result}"


CONVENTIONS = (
    Convention(
        "x-positions", "fn(x, positions) -> y", "posenc_ref, torchtune (x, input_pos), Keras",
        ("x", "positions"), ("apply",),
        stub=_stub("rotate(x, positions)", "x (B, H, S, D), positions (S,) -> like x"),
    ),
    Convention(
        "qk-positions", "fn(positions, query, key) -> (query, key), or in place",
        "vLLM and SGLang: (tokens, heads * head_dim)",
        ("positions", "query", "key"), ("apply_qk", "apply"), FLAT_FIRST,
        stub=_stub("rotate(positions, query, key)",
                   "positions (T,), query (T, H * D), key (T, H_kv * D) -> both rotated"),
    ),
    Convention(
        "qk-cos-sin", "fn(q, k, cos, sin, position_ids=None, unsqueeze_dim=1) -> (q, k)",
        "transformers; --table names the module that makes cos and sin",
        ("query", "key", "cos", "sin"), ("apply_qk", "apply"), table=True,
        stub=_stub("rotate(q, k, cos, sin)", "q (B, H, S, D), cos and sin (B, S, W)"),
    ),
    Convention(
        "qk-table", "fn(xq, xk, freqs_cis) -> (xq, xk)",
        "Meta's Llama, torchtitan; --table names precompute_freqs_cis(dim, end, theta)",
        ("query", "key", "turns"), ("apply_qk", "apply"), BSHD_FIRST, table=True,
        stub=_stub("rotate(xq, xk, freqs_cis)", "xq (B, S, H, D), freqs_cis (S, D / 2)"),
    ),
    Convention(
        "x-cos-sin", "fn(x, cos, sin, interleaved=False) -> y", "FlashAttention",
        ("x", "cos", "sin"), ("apply",), BSHD_FIRST, table=True,
        stub=_stub("rotate(x, cos, sin)", "x (B, S, H, D), cos and sin (S, D / 2)"),
    ),
    Convention(
        "x-table", "fn(x, freqs) -> y",
        "diffusers (x, freqs_cis), Megatron-LM (t, freqs), torchtune (x, rope_cache)",
        ("x", "table"), ("apply",), BHSD_FIRST, table=True,
        stub=_stub("rotate(x, freqs)", "x (B, H, S, D), freqs: rows of the table"),
    ),
    Convention(
        "x-offset", "fn(x, offset=0) -> y", "MLX, rotary-embedding-torch, Keras (start_index)",
        ("x", "offset"), ("apply",),
        stub=_stub("rotate(x, offset)", "x (B, H, S, D) from position offset on"),
    ),
    Convention(
        "qk-offset", "fn(q, k, offset=0) -> (q, k)", "xFormers-style caches",
        ("query", "key", "offset"), ("apply_qk", "apply"),
        stub=_stub("rotate(q, k, offset)", "q and k (B, H, S, D) from position offset on"),
    ),
    Convention(
        "packed-cos-sin", "fn(qkv, cos, sin) -> qkv, or in place", "FlashAttention's layers",
        ("packed", "cos", "sin"), ("apply_qk", "apply"), ("bshd",), table=True,
        stub=_stub("rotate(qkv, cos, sin)", "qkv (B, S, 3, H, D), cos and sin (S, D / 2)"),
    ),
    Convention(
        "packed-offset", "fn(qkv, offset=0) -> qkv, or in place", "FlashAttention's layers",
        ("packed", "offset"), ("apply_qk", "apply"), ("bshd",),
        stub=_stub("rotate(qkv, offset)", "qkv (B, S, 3, H, D) from position offset on"),
    ),
    Convention(
        "x-alone", "fn(x) -> y", "modules that number the tokens themselves", ("x",), ("apply",),
        stub=_stub("rotate(x)", "x (B, H, S, D) at positions 0 .. S-1"),
    ),
    Convention(
        "qk-alone", "fn(q, k) -> (q, k)", "modules that number the tokens themselves",
        ("query", "key"), ("apply_qk", "apply"),
        stub=_stub("rotate(q, k)", "q and k (B, H, S, D) at positions 0 .. S-1"),
    ),
    Convention(
        "x-grid", "fn(x, height, width) -> y, fn(x, shape), or fn(x) of an object with a grid",
        "vision models: DINO, EVA-02, SAM 2",
        ("x", "grid_height", "grid_width"), ("apply",),
        stub=_stub("rotate(x, height, width)", "x (B, H, height * width, D), row by row"),
    ),
    Convention(
        "qk-grid", "fn(q, k, height, width) -> (q, k), fn(q, k, shape), or fn(q, k) of an object",
        "vision models",
        ("query", "key", "grid_height", "grid_width"), ("apply_qk", "apply"),
        stub=_stub("rotate(q, k, height, width)", "q and k (B, H, height * width, D), row by row"),
    ),
    Convention(
        "cos-sin", "module(x, position_ids) -> (cos, sin); or fn(dim, end, theta) -> freqs_cis",
        "rotary modules of transformers; precompute_freqs_cis", ("positions",), ("cos_sin",),
        stub=_stub("cos_sin(positions)", "positions (S,) -> cos and sin, each (S, d / 2)"),
    ),
    Convention(
        "frequencies", "fn(dim, base) or fn(config, device) -> inv_freq, or (inv_freq, factor)",
        "transformers' ROPE_INIT_FUNCTIONS", (), ("frequencies",),
        stub=_stub("frequencies()", "radians per position of every pair (d / 2,)"),
    ),
    Convention(
        "slopes", "fn(num_heads) -> slopes", "ALiBi in MPT, vLLM and others",
        ("num_heads",), ("slopes",),
        stub=_stub("slopes(num_heads)", "(H,)"),
    ),
    Convention(
        "bucket", "fn(relative_position, bidirectional=, num_buckets=, max_distance=) -> buckets",
        "T5", ("relative_position",), ("bucket",),
        stub=_stub("bucket(relative_position)", "integers, key minus query -> bucket numbers"),
    ),
    Convention(
        "bias", "fn(q_len, k_len), fn(length), fn(num_heads, length) or "
        "fn(attention_mask, num_heads, dtype) -> bias",
        "ALiBi builders, T5's compute_bias", ("query_length", "key_length"), ("bias",),
        stub=_stub("bias(q_len, k_len)", "(H, q_len, k_len); the last query sees every key"),
    ),
    Convention(
        "table", "fn(positions) -> rows, fn(length, dim) -> the whole table",
        "sinusoidal and learned position embeddings", ("positions",), ("table",),
        stub=_stub("table(positions)", "positions (S,) -> (S, dim)"),
    ),
    Convention(
        "add", "module(x) -> x plus its position embedding", "PositionalEncoding of tutorials",
        ("x",), ("add",),
        stub=_stub("add(x)", "x (B, S, dim) -> x plus the rows of positions 0 .. S-1"),
    ),
)  # fmt: skip

NAMES = {convention.name: convention for convention in CONVENTIONS}
