"""vit-pytorch's CrossFormer: each offset gets the bias of another offset."""

import torch
from vit_pytorch.crossformer import Attention

torch.manual_seed(0)
window = 7
layer = Attention(64, "short", window)
seen = []
layer.dpb.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
layer(torch.zeros(1, 64, window, window))
table = seen[0]  # the offsets (rows, columns) whose biases are computed
own = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"), -1)
own = own.reshape(-1, 2)
wrong = 0
for query, key in ((0, 0), (0, 1), (24, 24), (48, 0)):
    used = table[layer.rel_pos_indices[query, key]].int().tolist()
    right = (own[query] - own[key]).tolist()
    print(f"patches {own[query].tolist()} and {own[key].tolist()}: bias of {used}, not of {right}")
    wrong += used != right
assert wrong == 4
