"""The models that the tutorials name: each preset judges the module of transformers for it."""

import re
from pathlib import Path

import pytest

import posenc_ref as pr
from posenc_ref.conformance import check
from posenc_ref.conformance.adapters import from_transformers
from posenc_ref.models.presets import needs
from tests.night import by_day

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
transformers = pytest.importorskip("transformers", reason="transformers is what is compared with")

PAGE = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
SMALL = {"vocab_size": 40, "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1,
         "intermediate_size": 16}  # fmt: skip


def model(name, **settings):
    """The bare model of one layer with random weights; other settings are the library's own."""
    torch.manual_seed(0)
    made = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**settings))
    return made.eval()


def learned(path, name, **settings):
    """A model, and the facts that its preset of a learned table needs."""

    def build():
        made = model(name, **settings)
        return made, {"weight": made.get_submodule(path).weight.detach().numpy()}

    return build


def t5():
    made = model("T5", vocab_size=40, d_model=32, d_kv=8, d_ff=16, num_layers=1, num_heads=8)
    table = made.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    return made.encoder, {"table": table.detach().numpy()}


def rotary(name, head_dim, **settings):
    given = {**SMALL, "hidden_size": 2 * head_dim, "num_attention_heads": 2, **settings}
    return lambda: (model(name, **given), {})


BERT = "embeddings.position_embeddings"
GPT = {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 40, "bos_token_id": 0,
       "eos_token_id": 0}  # fmt: skip
BART = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "vocab_size": 40}  # fmt: skip

#: preset: (the model and the facts that the preset lacks, the rows of a table or None)
JUDGED = {
    "gpt-2": (learned("wpe", "GPT2", **GPT), 1024),
    "gpt-3": (learned("wpe", "GPT2", **GPT, n_positions=2048), 2048),
    "bert": (learned(BERT, "Bert", **SMALL), 512),
    "albert": (learned(BERT, "Albert", **SMALL, embedding_size=16), 512),
    "roberta": (learned(BERT, "Roberta", **SMALL, max_position_embeddings=514), 514),
    "ernie-3.0": (learned(BERT, "Ernie", **SMALL, max_position_embeddings=2048), 2048),
    "bart": (learned("encoder.embed_positions", "Bart", **BART), 1026),
    "t5": (t5, 32),
    "bloom": (lambda: (model("Bloom", vocab_size=40, hidden_size=32, n_layer=1, n_head=8),
                       {"num_heads": 8}), None),
    "falcon-7b": (rotary("Falcon", 64), None),
    "llama-7b": (rotary("Llama", 128), None),
    "gpt-neox-20b": (rotary("GPTNeoX", 96), None),
    "roformer-chinese-base": (rotary("RoFormer", 64), None),
}  # fmt: skip

#: Fine-tuned from another model, whose rotation they keep.
SAME = {"vicuna-7b-v1.3": "llama-7b", "alpaca-7b": "llama-7b"}

#: Judged elsewhere, on the real module's logits or on the authors' formula.
ELSEWHERE = {
    "palm": "nobody published its constants",
    "falcon-rw": "tests/posenc_ref/test_alibi_models.py",
    "deberta-v1": "tests/posenc_ref/test_deberta.py",
    "deberta-v1-paper": "tests/posenc_ref/test_deberta.py",
    "deberta-v3": "tests/posenc_ref/test_deberta.py",
    "sinusoidal-paper": "tests/posenc_ref/test_sinusoidal_presets.py",
    "sinusoidal-tensor2tensor": "tests/posenc_ref/test_sinusoidal_presets.py",
    "sinusoidal-transformer-xl": "tests/posenc_ref/test_transformer_xl.py",
    "sinusoidal-xlnet": "tests/posenc_ref/test_transformer_xl.py",
}


#: Modules of another class than all the others', or tables of another offset.
PULL_REQUEST = ("gpt-2", "roberta", "bart")


@pytest.mark.parametrize("name", by_day(JUDGED, PULL_REQUEST))
def test_the_module_of_the_model_conforms_to_its_preset(name):
    build, rows = JUDGED[name]
    module, facts = build()
    assert set(facts) == {need.fact for need in needs(name)}
    for values in facts.values():
        assert rows is None or values.shape[0] == rows
    found = pr.preset(name, **facts).encodings
    # T5's encoder looks both ways, its decoder back.
    encoding = found["encoder"] if name == "t5" else next(iter(found.values()))
    real = from_transformers(module)
    report = check(real, encoding)
    assert report.passed, report
    wrong = neighbour(encoding)
    assert not check(from_transformers(build()[0]), wrong).passed, wrong


def neighbour(encoding):
    """What somebody might have taken instead."""
    if isinstance(encoding, pr.Learned):
        return encoding.replace(offset=abs(encoding.offset - 1))
    if isinstance(encoding, pr.T5Bias):
        return encoding.replace(bidirectional=False)
    if isinstance(encoding, pr.ALiBi):
        return encoding.replace(max_bias=4.0)
    other = {"half": "interleaved", "interleaved": "half"}[encoding.layout]
    return encoding.replace(layout=other)


def test_every_preset_of_the_page_is_judged():
    rows = [r for r in PAGE[PAGE.index("## The models") :].splitlines() if r.startswith("| ")]
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[3])}
    assert named == {*JUDGED, *SAME, *ELSEWHERE}
    for where in ELSEWHERE.values():
        assert where.startswith("nobody") or (Path(__file__).parents[2] / where).exists()


@pytest.mark.parametrize(("name", "parent"), SAME.items())
def test_what_is_fine_tuned_keeps_the_rotation(name, parent):
    assert pr.preset(name).only == pr.preset(parent).only


def test_palm_asks_for_what_nobody_could_read():
    with pytest.raises(ValueError, match="head_dim="):
        pr.preset("palm")
