"""ProphetNet: three tokens after a cache of five all get the row of the last one."""

import torch
from transformers import DynamicCache, ProphetNetConfig
from transformers.models.prophetnet.modeling_prophetnet import ProphetNetPositionalEmbeddings

table = ProphetNetPositionalEmbeddings(ProphetNetConfig(hidden_size=16))
cache = DynamicCache()
cache.update(torch.zeros(1, 1, 5, 1), torch.zeros(1, 1, 5, 1), 0)
_, whole = table((1, 8), torch.device("cpu"))
_, after = table((1, 3), torch.device("cpu"), past_key_values=cache)
print("rows of tokens 5, 6, 7 in one call of eight:", whole[0, 5:].tolist())
print("rows of the same tokens after a cache of 5: ", after.expand(1, 3)[0].tolist())
assert whole[0, 5:].tolist() != after.expand(1, 3)[0].tolist()
