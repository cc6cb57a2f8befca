"""KerasHub: on pictures that are not square D-FINE gives tokens the positions of others."""

import os

os.environ["KERAS_BACKEND"] = "torch"

import numpy as np
from keras_hub.src.models.d_fine.d_fine_hybrid_encoder import DFineHybridEncoder

height, width, dim = 2, 3, 8
table = np.array(DFineHybridEncoder.build_2d_sincos_position_embedding(width, height, dim))[0]
# The encoder flattens the picture row by row. Columns 0 and dim / 2 are sines of frequency 1.
right = np.array([[np.sin(c), np.sin(r)] for r in range(height) for c in range(width)])
got = table[:, [0, dim // 2]]
print("sin(column), sin(row) of each token of", height, "rows and", width, "columns")
print("expected", right.round(3).tolist())
print("got     ", got.round(3).tolist())
wrong = (abs(got - right).max(axis=1) > 1e-3).sum()
print(wrong, "of", height * width, "tokens have the position of another")
assert wrong == 4
