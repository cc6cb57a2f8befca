"""GLM-Image: a prompt without images is continued at the positions of an earlier call's image."""

import torch
from transformers import GlmImageConfig
from transformers.models.glm_image.modeling_glm_image import GlmImageModel

with torch.device("meta"):
    model = GlmImageModel(GlmImageConfig())


class Cache:
    """A cache that holds six tokens."""

    def get_seq_length(self):
        """Return 6."""
        return 6


def decoded():
    """Return the position ids of the first generated token after a prompt of six tokens."""
    return model.compute_3d_position_ids(
        torch.zeros(1, 1, dtype=torch.long), None, None, torch.zeros(1, 1, 4), None, Cache()
    )


prompt = torch.tensor([[5, 5, 5]])  # a prompt, and two images of 3 x 2 and 1 x 1 to come
model.compute_3d_position_ids(
    prompt,
    torch.tensor([[1, 3, 2], [1, 1, 1]]),
    torch.tensor([2]),
    torch.zeros(1, 3, 4),
    None,
    None,
)
model.compute_3d_position_ids(
    torch.zeros(1, 6, dtype=torch.long), None, None, torch.zeros(1, 6, 4), None, None
)
found = decoded()[:, 0, 0].tolist()
print("after six tokens of text:", found)
assert found == [4, 5, 4]  # row 1, column 0 of the image at 4; text would have 6
