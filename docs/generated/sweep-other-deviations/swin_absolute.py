"""Swin's kin: with absolute positions switched on, the table has a row that no token is for."""

import torch
from transformers import MaskFormerSwinConfig, Swin2SRConfig, Swinv2Config
from transformers.models.donut.configuration_donut_swin import DonutSwinConfig
from transformers.models.donut.modeling_donut_swin import DonutSwinEmbeddings
from transformers.models.maskformer.modeling_maskformer_swin import MaskFormerSwinEmbeddings
from transformers.models.swin2sr.modeling_swin2sr import Swin2SREmbeddings
from transformers.models.swinv2.modeling_swinv2 import Swinv2Embeddings

failed = 0
for made, config in (
    (DonutSwinEmbeddings, DonutSwinConfig),
    (MaskFormerSwinEmbeddings, MaskFormerSwinConfig),
    (Swinv2Embeddings, Swinv2Config),
    (Swin2SREmbeddings, Swin2SRConfig),
):
    module = made(config(image_size=56, embed_dim=24, use_absolute_embeddings=True))
    channels = 24 if config is Swin2SRConfig else 3
    image = torch.zeros(1, channels, 56, 56)
    more = {"interpolate_pos_encoding": False} if config is MaskFormerSwinConfig else {}
    try:
        module(image, **more)
    except RuntimeError as error:
        print(f"{made.__name__}: {error}")
        failed += 1
assert failed == 4
