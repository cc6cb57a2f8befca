"""Moshi's window: the same tokens in one call, and one by one with a cache.

Runs with torch and transformers alone. The window has 4 keys instead of 3000. One call ignores it;
the cache drops keys outside it. Both get an attention mask of ones: before 5.18.0, eager attention
without one sees later tokens.
"""

import torch
from transformers import MoshiConfig, MoshiForCausalLM

for window in (64, 4):
    config = MoshiConfig(
        hidden_size=64,
        ffn_dim=64,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=16,
        num_hidden_layers=2,
        vocab_size=99,
        sliding_window=window,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    model = MoshiForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(std=weight.shape[-1] ** -0.5)
        ids = torch.randint(3, 99, (1, 10))
        ones = torch.ones_like(ids)
        whole = model(input_ids=ids, attention_mask=ones, use_cache=False).logits
        cache, steps = None, []
        for i in range(ids.shape[1]):
            seen = {"attention_mask": ones[:, : i + 1], "past_key_values": cache}
            out = model(input_ids=ids[:, i : i + 1], **seen, use_cache=True)
            cache = out.past_key_values
            steps.append(out.logits)
        apart = (torch.cat(steps, dim=1) - whole).abs().amax(dim=(0, 2))
    wrong = [i for i, value in enumerate(apart.tolist()) if value > 1e-3]
    print(
        f"window {window}: logits differ at tokens {wrong or 'none'}; largest difference "
        f"{apart.max():.2g}"
    )
    if wrong and window == 64:
        raise RuntimeError("a cache changes the logits without a window, too")
assert wrong == [4, 5, 6, 7, 8, 9]
