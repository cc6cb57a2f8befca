"""Swin's kin: with absolute positions switched on, the table has a row that no token is for."""

import torch
from transformers import MaskFormerSwinConfig, Swinv2Config
from transformers.models.donut.configuration_donut_swin import DonutSwinConfig
from transformers.models.donut.modeling_donut_swin import DonutSwinEmbeddings
from transformers.models.maskformer.modeling_maskformer_swin import MaskFormerSwinEmbeddings
from transformers.models.swinv2.modeling_swinv2 import Swinv2Embeddings

image = torch.zeros(1, 3, 56, 56)
failed = 0
for made, config in (
    (DonutSwinEmbeddings, DonutSwinConfig),
    (MaskFormerSwinEmbeddings, MaskFormerSwinConfig),
    (Swinv2Embeddings, Swinv2Config),
):
    module = made(config(image_size=56, embed_dim=24, use_absolute_embeddings=True))
    more = {"interpolate_pos_encoding": False} if config is MaskFormerSwinConfig else {}
    try:
        module(image, **more)
    except RuntimeError as error:
        print(f"{made.__name__}: {error}")
        failed += 1
assert failed == 3
