"""Right, but unusual: windows, scores, ids."""
import math
import os

import numpy as np
import torch

W = np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "weights.npz"))


# 082: surface relative_index: rows numbered from the other corner, column-major over the offsets
def other_numbering(window):
    h, w = window
    ids = {}
    pts = [(y, x) for y in range(h) for x in range(w)]
    order = [(dx, dy) for dx in range(w - 1, -w, -1) for dy in range(h - 1, -h, -1)]
    for n, (dx, dy) in enumerate(order):
        ids[dy, dx] = n
    return np.array([[ids[b[0] - a[0], b[1] - a[1]] for b in pts] for a in pts])


# 083: levit, surface bias: the authors' dictionary of offsets
def levit_dictionary(q_len, k_len, res=(3, 5)):
    import itertools

    points = list(itertools.product(range(res[0]), range(res[1])))
    offsets, idxs = {}, []
    for p1 in points:
        for p2 in points:
            o = (abs(p1[0] - p2[0]), abs(p1[1] - p2[1]))
            offsets.setdefault(o, len(offsets))
            idxs.append(offsets[o])
    biases = torch.tensor(W["levit"]).T.contiguous()
    full = biases[:, torch.LongTensor(idxs).view(len(points), len(points))]
    return full[:, k_len - q_len : k_len, :k_len]


# 084: shaw, surface scores: q on all rows first, then one-hot matrix
def shaw_one_hot(q, k, K=4):
    Q, S, d = q.shape[2], k.shape[2], q.shape[-1]
    rel = np.clip(np.arange(S) - np.arange(S - Q, S)[:, None], -K, K) + K
    hot = np.eye(2 * K + 1)[rel]
    per_row = np.einsum("bhid,rd->bhir", q.astype(np.float64), W["shaw"])
    s = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), k) + np.einsum("bhir,ijr->bhij", per_row, hot)
    return (s / math.sqrt(d)).astype(q.dtype)


# 085: conformer, surface scores: ESPnet's shift of 2S - 1 distances
def conformer_full(q, k):
    q, k = torch.as_tensor(q).double(), torch.as_tensor(k).double()
    B, H, Q, d = q.shape
    K = k.shape[2]
    pos = torch.arange(K - 1, -K, -1, dtype=torch.float64)
    w = torch.exp(torch.arange(0, 16, 2).double() * -(math.log(10000.0) / 16))
    a = pos[:, None] * w
    R = torch.stack([a.sin(), a.cos()], -1).flatten(1)
    p = torch.einsum("hdD,rD->hrd", torch.tensor(W["W"]).double(), R)
    pad = torch.zeros(B, H, K - Q, d, dtype=q.dtype)  # as if all K queries were there
    bd = (torch.cat([pad, q], 2) + torch.tensor(W["v"])[:, None]) @ p.transpose(-1, -2)
    x = torch.cat([bd.new_zeros(B, H, K, 1), bd], -1).view(B, H, 2 * K, K)[:, :, 1:]
    bd = x.reshape(B, H, K, 2 * K - 1)[..., :K][:, :, K - Q :]
    ac = (q + torch.tensor(W["u"])[:, None]) @ k.transpose(-1, -2)
    return ((ac + bd) / math.sqrt(d)).float()


# 086: cope, surface scores: triangular matrix for the sums, hat functions for the interpolation
def cope_hats(q, k):
    q, k = q.astype(np.float64), k.astype(np.float64)
    Q, K, d = q.shape[2], k.shape[2], q.shape[-1]
    z = q @ np.swapaxes(k, -1, -2) / np.sqrt(d)
    g = 1 / (1 + np.exp(-z)) * (np.arange(K) <= np.arange(K - Q, K)[:, None])
    p = np.minimum(g @ np.tri(K), 5)
    hat = np.maximum(0, 1 - np.abs(p[..., None] - np.arange(6)))
    return (z + np.einsum("bhijp,bhip->bhij", hat, q @ W["cope"].T)).astype(np.float32)


# 087: surface relative_shift: gather
def shift_by_gather(x):
    t = torch.as_tensor(x)
    Q, K = t.shape
    cols = torch.arange(K)[None] + (Q - 1 - torch.arange(Q))[:, None]
    return torch.gather(torch.nn.functional.pad(t, (0, Q)), 1, cols).tril(K - Q)


# 088: surface packed: running maximum of the starts
def packed_cummax(lengths):
    lengths = torch.as_tensor(lengths).long()
    total = int(lengths.sum())
    starts = torch.zeros(total + 1, dtype=torch.long)
    at = torch.cumsum(lengths, 0) - lengths
    starts[at] = at
    at = torch.arange(total)
    return at - torch.cummax(starts[:total], 0).values if total else at


# 089: MRoPEPositions(), surface mrope_position_ids: one token at a time
def mrope_by_token(token_types, image_grids, video_grids, seconds_per_grid, attention_mask, n_steps):
    images, videos = iter(np.asarray(image_grids).tolist()), iter(np.asarray(video_grids).tolist())
    result = []
    for types, mask in zip(np.asarray(token_types).tolist(), np.asarray(attention_mask).tolist()):
        row, top, queue = [], -1, []
        for kind, real in zip(types, mask):
            if not real:
                row.append((0, 0, 0))
                continue
            if kind in (1, 2):
                if not queue:
                    t, h, w = next(images if kind == 1 else videos)
                    c = top + 1
                    queue = [(c + f, c + y, c + x) for f in range(t) for y in range(h // 2) for x in range(w // 2)][::-1]
                row.append(queue.pop())
            else:
                row.append((top + 1,) * 3)
            top = max(top, *row[-1])
        row += [(top + 1 + s,) * 3 for s in range(n_steps)]
        result.append(row)
    return np.array(result, np.int64).reshape(len(result), -1, 3).transpose(2, 0, 1)
