"""local-attention: queries of non-causal attention are rotated as those of a later window."""

import torch
from local_attention import local_attention

torch.manual_seed(0)
window, dim = 4, 8
q, k = torch.randn(2, 1, 3 * window, dim)
seen = []
einsum = local_attention.einsum


def watched(*operands):
    """Keep the results of einsum, the first of which are the logits."""
    seen.append(einsum(*operands))
    return seen[-1]


local_attention.einsum = watched
shown = []
for causal in (True, False):
    seen.clear()
    layer = local_attention.LocalAttention(window, dim=dim, causal=causal)
    layer(q, k, k)
    logits = seen[0][0, 1]  # of the queries 4 .. 7; their own keys follow those of a window
    shown.append(logits[0, window].item())
    print(f"causal={causal!s:5} look_forward={layer.look_forward}:", shown[-1])
right = (q[0, window] @ k[0, window] / dim**0.5).item()
print("query 4 and key 4, not rotated:   ", right)
assert abs(shown[0] - right) < 1e-5 < 1e-2 < abs(shown[1] - right)
