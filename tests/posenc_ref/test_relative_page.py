"""The table of docs/biases-and-scores.md: every score it states bounds the one measured here."""

import re
from functools import partial
from pathlib import Path

import pytest

from posenc_ref import ALiBi

from . import (
    test_alibi_models,
    test_cope,
    test_deberta,
    test_decomposed,
    test_dynamic_bias,
    test_espnet_legacy,
    test_forgetting,
    test_gated_bias,
    test_pope,
    test_shaw,
    test_t5_models,
    test_transformer_xl,
    test_window_models,
)
from .naive import worst_logits

PAGE = Path(__file__).parents[2] / "docs" / "biases-and-scores.md"


def alibi(made, encoding):
    q, k, logits = made()
    sides = (t.detach().numpy().reshape(2, encoding.num_heads, 7, 16) for t in (q, k))
    return test_alibi_models.worst(encoding, *sides, logits)


def term(made, dtype="float32"):
    return worst_logits(*made(), dtype)


def streams():
    encoding, segment, (content, query, keys), seen = test_transformer_xl.xlnet()
    return max(
        worst_logits(encoding, x, keys, y - encoding.segment_term(x, segment, segment), "float32")
        for x, y in zip((content, query), seen, strict=True)
    )


MEASURED = {
    "BLOOM": lambda: alibi(lambda: test_alibi_models.bloom(6), ALiBi(6)),
    "MPT": lambda: alibi(lambda: test_alibi_models.mpt(6), ALiBi(6)),
    "Falcon-RW": lambda: alibi(
        lambda: test_alibi_models.falcon(8), ALiBi(8, bias_inside_scale=True)
    ),
    "MPNet": lambda: test_t5_models.worst(*test_t5_models.mpnet()),
    "LayoutLMv3": lambda: test_t5_models.worst(*test_t5_models.layoutlmv3()),
    "Wav2Vec2-BERT": lambda: term(test_shaw.wav2vec2_bert, "float64"),
    "SpeechT5": lambda: term(test_shaw.speecht5, "float64"),
    "WavLM": lambda: test_gated_bias.worst(*test_gated_bias.wavlm()),
    "XLNet": streams,
    "Wav2Vec2-Conformer": lambda: term(test_transformer_xl.conformer),
    "FastSpeech2-Conformer": lambda: term(test_espnet_legacy.fastspeech),
    "Funnel": lambda: max(
        term(partial(test_transformer_xl.funnel, kind)) for kind in test_transformer_xl.FUNNEL
    ),
    "DeBERTa": lambda: term(test_deberta.v1),
    "DeBERTa-v2": lambda: max(term(partial(test_deberta.v2, share)) for share in (True, False)),
    "SAM": lambda: term(test_decomposed.sam, "float64"),
    "x-transformers": lambda: test_cope.worst_of_x_transformers(masked=True),
    "Swin": lambda: test_window_models.worst(*test_window_models.swin()),
    "Swin v2": lambda: test_window_models.worst(*test_window_models.swin_v2()),
    "BEiT": lambda: test_window_models.worst(*test_window_models.beit()),
    "LeViT": lambda: test_window_models.worst(*test_window_models.levit()),
    "x-transformers, data-dependent ALiBi": test_forgetting.worst_of_x_transformers,
    "x-transformers, polar": test_pope.worst_of_x_transformers,
    "x-transformers, linear and logarithmic": test_dynamic_bias.worst_of_x_transformers,
}


def stated():
    rows = re.findall(r"^\| `\w+`[^|]*\| ([^|]+?) \|[^|]*\| ([\d.]+) \|", PAGE.read_text(), re.M)
    return {name: float(number) for name, number in rows}


def test_every_peer_has_a_row():
    assert stated().keys() == MEASURED.keys()


@pytest.mark.parametrize("name", MEASURED)
def test_the_score_is_at_most_the_one_stated(name):
    """An upper bound only: on some processors a module agrees to the last bit and scores 0."""
    assert MEASURED[name]() <= stated()[name]


def test_the_python_of_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), {})
