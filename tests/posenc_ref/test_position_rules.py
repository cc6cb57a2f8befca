"""Which row of a learned table a token gets: BERT, GPT-2, OPT, BART and RoBERTa, by their code."""

import numpy as np
import pytest

from posenc_ref import Learned, position_ids

torch = pytest.importorskip("torch", reason="PyTorch runs what is compared with")
models = pytest.importorskip("transformers", reason="transformers is what is compared with").models

PAD, DIM, ROWS = 1, 4, 16
LEFT = np.array([[0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
MASKS = {"left": LEFT, "right": LEFT[:, ::-1].copy(), "whole": np.ones((2, 6), np.int64)}
MASK = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)


def tokens(mask):
    return np.where(mask == 1, np.arange(5, 11), PAD)


def learned(module, **fields):
    return Learned(module.weight.detach().numpy(), **fields)


@MASK
def test_opt_counts_real_tokens_and_pads_get_row_1(mask):
    module = models.opt.modeling_opt.OPTLearnedPositionalEmbedding(ROWS, DIM)
    peer = module(torch.as_tensor(mask)).detach().numpy()
    encoding = learned(module, offset=2)
    assert (encoding.table(position_ids(mask, padding=-1)) == peer).all()
    padded = bool((mask == 0).any())
    assert (encoding.table(position_ids(mask)) == peer).all() == (not padded)
    counted = encoding.table(np.broadcast_to(np.arange(6), mask.shape))
    assert (counted == peer).all() == (not padded)


@MASK
def test_bart_counts_padding(mask):
    module = models.bart.modeling_bart.BartLearnedPositionalEmbedding(ROWS, DIM)
    peer = module(torch.as_tensor(tokens(mask))).detach().numpy()
    encoding = learned(module, offset=2)
    assert (encoding.table(np.broadcast_to(np.arange(6), mask.shape)) == peer).all()
    assert not (encoding.replace(offset=0).table(np.arange(6)) == peer).any()


@MASK
def test_roberta_counts_from_padding_idx_plus_one(mask):
    cls = models.roberta.modeling_roberta.RobertaEmbeddings
    ids = torch.as_tensor(tokens(mask))
    rows = cls.create_position_ids_from_input_ids(ids, PAD).numpy()
    encoding = Learned(np.arange(ROWS * DIM, dtype=float).reshape(ROWS, DIM), padding_idx=PAD)
    assert (encoding.ids_from_tokens(tokens(mask)) == rows).all()
    # The same rows by the mask: real tokens at position + 2, padding at row 1.
    assert (position_ids(mask, padding=-1) + 2 == rows).all()


def test_the_table_of_roberta_is_trained():
    """A frozen sinusoid it is not: only the row of padding has no gradient."""
    config = models.roberta.RobertaConfig(
        vocab_size=12, hidden_size=8, max_position_embeddings=ROWS, pad_token_id=PAD
    )
    module = models.roberta.modeling_roberta.RobertaEmbeddings(config).position_embeddings
    assert module.weight.requires_grad
    assert module.padding_idx == PAD
    module(torch.tensor([[1, 2, 3]])).sum().backward()
    moved = module.weight.grad.abs().sum(dim=1)
    assert moved.nonzero().flatten().tolist() == [2, 3]


@MASK
def test_gpt_2_while_generating(mask):
    """generate() makes the ids; the model itself would count from 0."""
    config = models.gpt2.GPT2Config(
        vocab_size=12, n_embd=8, n_layer=1, n_head=2, n_positions=ROWS, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip
    model = models.gpt2.GPT2LMHeadModel(config).eval()
    seen = []
    model.transformer.wpe.register_forward_hook(lambda m, given, out: seen.append(given[0]))
    model.generate(
        input_ids=torch.as_tensor(tokens(mask)) % 12, attention_mask=torch.as_tensor(mask),
        max_new_tokens=1, do_sample=False, pad_token_id=PAD,
    )  # fmt: skip
    got = np.broadcast_to(seen[0].numpy(), mask.shape)
    real = mask == 1
    assert (got[real] == position_ids(mask)[real]).all()


def test_bert_counts_everything_from_0():
    config = models.bert.BertConfig(
        vocab_size=12, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    module = models.bert.modeling_bert.BertEmbeddings(config)
    assert module.position_ids[0, :6].tolist() == list(range(6))
    assert module.position_embeddings.weight.requires_grad
