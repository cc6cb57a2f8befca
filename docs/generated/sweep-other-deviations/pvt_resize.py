"""PVT: an image of another size raises, and one of another shape gets rows of other patches."""

import torch
from transformers import PvtConfig
from transformers.models.pvt.modeling_pvt import PvtPatchEmbeddings

module = PvtPatchEmbeddings(PvtConfig(image_size=32), 32, 4, 4, 3, 8)  # 8 x 8 patches
try:
    module(torch.zeros(1, 3, 48, 48))
    raise SystemExit("12 x 12 patches were accepted")
except RuntimeError as error:
    print("12 x 12 patches:", error)
with torch.no_grad():
    for p in module.projection.parameters():
        p.zero_()
    module.layer_norm.weight.zero_()
    rows, (out, *_) = module.position_embeddings, module(torch.zeros(1, 3, 16, 64))
print("4 x 16 patches get the rows of 8 x 8, in their order:", torch.equal(out, rows))
assert torch.equal(out, rows)
