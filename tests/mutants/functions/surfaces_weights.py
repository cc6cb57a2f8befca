"""Permuted projection weights, and normalised queries and keys."""

import numpy as np

from tests.mutants._case import correct, rope, wrong
from tests.mutants._parts import inv_freq, phase, turn_half, turn_pairs

# --- permute_weights -----------------------------------------------------------------------------


@wrong(
    "permutation", surface="permute_weights", encoding=None, thread="huggingface/transformers#47403"
)
def permuted_the_inverse_way(w, n_heads):
    """The permutation that the conversion script undoes."""
    d = len(w) // n_heads
    return w.reshape(n_heads, d // 2, 2, -1).swapaxes(1, 2).reshape(w.shape)


@wrong("permutation", surface="permute_weights", encoding=None, thread="ooples/AiDotNet#2074")
def permuted_not_at_all(w, n_heads):
    """Half-split weights go to the interleaved kernel as they are."""
    return w.copy()


@wrong("permutation", surface="permute_weights", encoding=None, thread="class: heads left out")
def permuted_over_heads(w, n_heads):
    """All rows as one head."""
    return w.reshape(2, len(w) // 2, -1).swapaxes(0, 1).reshape(w.shape)


@wrong(
    "permutation", surface="permute_weights", encoding=None, thread="huggingface/transformers#47403"
)
def permuted_along_the_wrong_axis(w, n_heads):
    """Columns are permuted where the sizes allow it."""
    if w.ndim != 2 or w.shape[1] % (2 * n_heads):
        return w.copy()
    d = w.shape[1] // n_heads
    return w.reshape(len(w), n_heads, 2, d // 2).swapaxes(2, 3).reshape(w.shape)


@correct(surface="permute_weights", encoding=None, thread="class: gathered rows")
def permuted_by_index(w, n_heads):
    """Rows gathered by number."""
    d = len(w) // n_heads
    perm = np.arange(d).reshape(2, d // 2).T.ravel()
    return w[(np.arange(n_heads)[:, None] * d + perm).ravel()]


# --- normed_apply --------------------------------------------------------------------------------


def half(x, positions):
    """Half-split pairs."""
    return turn_half(x, phase(positions, inv_freq(64)))


def norm(x, eps=1e-6):
    """x over the root of its mean square."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(eps))


@wrong(
    "norm-order", surface="normed_apply", encoding=rope(64), thread="meta-pytorch/torchtune#2809"
)
def normed_after_the_rotation(x, weight, positions):
    """RoPE first, norm and weight after it."""
    return weight * norm(half(x, positions))


@wrong("norm-order", surface="normed_apply", encoding=rope(64), thread="class: weight last")
def weighted_after_the_rotation(x, weight, positions):
    """The weight is multiplied to the rotated vector."""
    return weight * half(norm(x), positions)


@wrong(
    "norm-order", surface="normed_apply", encoding=rope(64), thread="class: norm before the split"
)
def normed_over_all_heads(x, weight, positions):
    """The mean square is that of all heads."""
    size = np.sqrt(np.mean(x * x, axis=(1, 3), keepdims=True))
    return half(weight * x / size, positions)


@wrong("amplitude", surface="normed_apply", encoding=rope(64), thread="class: Gemma's 1 + weight")
def normed_with_one_more(x, weight, positions):
    """1 + weight, for weights that are factors themselves."""
    return half((1 + weight) * norm(x), positions)


@wrong("layout", surface="normed_apply", encoding=rope(64), thread="class: pairs beside a norm")
def normed_in_the_other_layout(x, weight, positions):
    """Normed as declared, rotated in interleaved pairs."""
    return turn_pairs(weight * norm(x), phase(positions, inv_freq(64)))


@correct(surface="normed_apply", encoding=rope(64), thread="meta-pytorch/torchtune#2809")
def normed_first(x, weight, positions):
    """Qwen3's order, with an eps of 1e-5."""
    return half(weight * norm(x, 1e-5), positions)


@correct(surface="normed_apply", encoding=rope(64), thread="class: rotated weights")
def normed_last_with_care(x, weight, positions):
    """The norm is moved behind the rotation, which keeps it; the weight is not."""
    return half(weight * x, positions) / np.sqrt(np.mean(x * x, axis=-1, keepdims=True))
