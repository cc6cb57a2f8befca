"""torchtitan's FLUX: under FSDP in bfloat16, positions and angles are bfloat16."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torchtitan.models.flux.model.layers import EmbedND

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Model(torch.nn.Module):
    """Take coordinates, as FluxModel does, and make the table of its rotation."""

    def __init__(self):
        super().__init__()
        self.img_in = torch.nn.Linear(8, 8)
        self.pe_embedder = EmbedND(EmbedND.Config(dim=128, theta=10000, axes_dim=(16, 56, 56)))

    def forward(self, img, img_ids):
        """Return the table of the rotation."""
        return self.pe_embedder(img_ids)


ids = torch.zeros(1, 64, 3)
ids[0, :, 1] = torch.arange(64)  # the rows of an image of 1024 x 1024 pixels
model = Model()
right = model(torch.zeros(1, 64, 8), ids)
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
fully_shard(model, mesh=init_device_mesh("cpu", (1,)), mp_policy=policy)  # as apply_fsdp does
found = model(torch.zeros(1, 64, 8), ids)
error = (found - right).abs()
for row in (10, 63):
    pair = int(error[0, row, 0, :, 0, 0].argmax())
    print(f"row {row}: cosine of pair {pair}:", found[0, row, 0, pair, 0, 0].item())
    print("          in float32:          ", right[0, row, 0, pair, 0, 0].item())
dist.destroy_process_group()
assert error.max() > 0.05
