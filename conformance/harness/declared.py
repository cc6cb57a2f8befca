"""The type of what is declared: what a function should compute."""

from __future__ import annotations

from posenc_ref import Encoding, ModelEncoding, MRoPEPositions

#: A declaration: an encoding, a whole model, a rule of position ids, or None.
Declared = Encoding | ModelEncoding | MRoPEPositions | None
