"""diffusers: the two channels of a pair of ERNIE-Image turn by different angles."""

import types
from unittest import mock

import torch
from diffusers.models.transformers import transformer_ernie_image as ernie

embed = ernie.ErnieImageEmbedND3(dim=128, theta=256, axes_dim=(32, 48, 48))
same = torch.nn.Identity()
layer = types.SimpleNamespace(
    to_q=same, to_k=same, to_v=same, heads=1, norm_q=None, norm_k=None, to_out=[same]
)
processor = ernie.ErnieImageSingleStreamAttnProcessor()


def rotated(x, ids):
    """Return queries (S, 128) as the attention gets them."""
    with mock.patch.object(ernie, "dispatch_attention_fn", lambda query, *_, **__: query):
        return processor(layer, x[None], freqs_cis=embed(ids[None]))[0]


x = torch.ones(1, 128)
y = rotated(x, torch.tensor([[1.0, 0.0, 0.0]]))[0]
angle = embed(torch.tensor([[[1.0, 0.0, 0.0]]]))[0, 0, 0]
print("channels 2 and 66 are a pair; they turn by", angle[2].item(), "and", angle[66].item())
norm = (x[0, [2, 66]].norm().item(), y[[2, 66]].norm().item())
print("its norm before, which a rotation keeps, and after:", norm)
q, k = torch.randn(2, 1, 128, generator=torch.Generator().manual_seed(0))


def turned(x, ids):
    """Return x (S, 128) with neighbours rotated: the table repeats each angle for neighbours."""
    angles = embed(ids[None])[0, :, 0].double()
    swapped = torch.stack([-x[:, 1::2], x[:, 0::2]], -1).flatten(1)
    return x * angles.cos() + swapped * angles.sin()


logits = {rotated: [], turned: []}
for moved in (0, 5, 50):
    at = torch.tensor([[moved + 3.0, 1.0, 1.0]]), torch.tensor([[moved + 1.0, 1.0, 1.0]])
    for rotate, own in logits.items():
        own.append((rotate(q, at[0]) @ rotate(k, at[1]).T).item() / 128**0.5)
print("a logit of two tokens, both moved by 0, 5 and 50 frames")
print("got            ", [round(v, 4) for v in logits[rotated]])
print("if neighbours are the pairs", [round(v, 4) for v in logits[turned]])
assert abs(norm[0] - norm[1]) > 0.1
assert max(logits[rotated]) - min(logits[rotated]) > 0.1
assert max(logits[turned]) - min(logits[turned]) < 1e-4
