"""TorchScale: with a relative position bias, a decoder cannot generate from its cache."""

import torch
from torchscale.architecture.config import DecoderConfig
from torchscale.architecture.decoder import Decoder

torch.manual_seed(0)
heads = 4
config = DecoderConfig(
    vocab_size=10, decoder_embed_dim=32, decoder_attention_heads=heads, decoder_layers=1,
    decoder_ffn_embed_dim=32, rel_pos_buckets=32, max_rel_pos=128,
)  # fmt: skip
model = Decoder(config, embed_tokens=torch.nn.Embedding(10, 32)).eval()


@torch.no_grad()
def last(tokens, cached):
    """Return the features of the last token, computed at once or with a cache."""
    if not cached:
        return model(tokens, features_only=True)[0][:, -1]
    cache = {"is_first_step": True}
    model(tokens[:, :-1], features_only=True, incremental_state=cache)
    cache["is_first_step"] = False
    return model(tokens, features_only=True, incremental_state=cache)[0][:, -1]


wrong = 0
for length in (heads, 8):
    tokens = torch.randint(10, (1, length))
    print(f"{length} tokens, at once:    ", last(tokens, cached=False)[0, :4].tolist())
    try:
        found = last(tokens, cached=True)
        print(f"{length} tokens, with a cache:", found[0, :4].tolist())
        wrong += (found - last(tokens, cached=False)).abs().max().item() > 1e-2
    except RuntimeError as error:
        print(f"{length} tokens, with a cache: RuntimeError: {error}")
        wrong += 1
assert wrong == 2
