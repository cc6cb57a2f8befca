"""Rare inputs and unusual code that is right."""

import math

import numpy as np

from posenc_ref import (
    ALiBi,
    ConViTBias,
    FoPE,
    Kerple,
    LongRoPE,
    MultiAxisRoPE,
    RoPE,
    SwinBias,
)

_rng = np.random.default_rng(66)


def _inv(base, d):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


def _up(e, positions):
    return e[:, None] if np.ndim(positions) == 2 else e


# --- e112 (right) and e113: DeepSeek's slice ---------------------------------------------------------
def _deepseek(start):
    def apply(x, positions):
        e = _up(np.asarray(positions, np.float64)[..., None] * _inv(10000.0, 64), positions)
        part = x[..., start : start + 64].astype(np.float64)
        a, b = part[..., 0::2], part[..., 1::2]
        y = np.concatenate([a * np.cos(e) - b * np.sin(e), a * np.sin(e) + b * np.cos(e)], -1)
        return np.concatenate([x[..., :start], y.astype(x.dtype), x[..., start + 64 :]], -1)

    return apply


# --- e114 (right) -------------------------------------------------------------------------------------
_R1, _R2 = _rng.random(5) * 2 + 0.1, _rng.random(5) * 3 + 0.1


def kerple_binary(q_len, k_len):
    d = np.abs(np.subtract.outer(np.arange(k_len - q_len, k_len), np.arange(k_len)))
    pow2 = np.log2(1.0 + np.multiply.outer(_R2, d))
    return (-(math.log(2.0) * _R1)[:, None, None] * pow2).astype(np.float32)


# --- e115 (right): ALiBi as two more channels -------------------------------------------------------------
def alibi_channels(q, k):
    m = ALiBi(8).slopes()
    n, t = q.shape[2], k.shape[2]
    i, j = np.arange(t - n, t, dtype=np.float64), np.arange(t, dtype=np.float64)
    d = q.shape[-1]
    left = np.zeros((*q.shape[:3], d + 2))
    right = np.zeros((*k.shape[:3], d + 2))
    left[..., :d], right[..., :d] = q / math.sqrt(d), k
    left[..., d], right[..., d] = -m[:, None] * i, 1.0
    left[..., d + 1], right[..., d + 1] = m[:, None], j
    return (left @ right.swapaxes(-1, -2)).astype(q.dtype)


# --- e116 (right) and e117: float16 in torch ----------------------------------------------------------------
def _torch_half(buffers_too):
    import torch

    class Rope(torch.nn.Module):
        def __init__(self):
            super().__init__()
            inv = torch.tensor(_inv(10000.0, 64), dtype=torch.float32)
            self.register_buffer("inv", inv)

        def forward(self, x, positions):
            e = torch.as_tensor(positions).double()[..., None] * self.inv.double()
            e = e[:, None] if e.ndim == 3 else e
            first = x.index_select(-1, torch.arange(0, 32)).double()
            second = x.index_select(-1, torch.arange(32, 64)).double()
            y = torch.complex(first, second) * torch.polar(torch.ones_like(e), e)
            return torch.cat([y.real, y.imag], -1).to(x.dtype)

    rope = Rope().half() if buffers_too else Rope()
    return lambda x, positions: rope(x, positions)


# --- e118, e119: integer and float positions --------------------------------------------------------------------
def _stored(kind):
    def apply(x, positions):
        p = np.asarray(positions)
        p = p.astype(kind) if p.dtype.kind in "iu" else p
        e = _up(p.astype(np.float64)[..., None] * _inv(10000.0, 64), positions)
        z = x[..., ::2] + 1j * x[..., 1::2].astype(np.float64)
        z = z * np.exp(1j * e)
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

    return apply


# --- e120 (right): LongRoPE by the call's length ---------------------------------------------------------------
_SHORT, _LONG = tuple(1 + 0.02 * k for k in range(24)), tuple(1.5 + k for k in range(24))
LONG = RoPE(64, layout="half", rotary_dim=48, scaling=LongRoPE(_SHORT, _LONG, 512, factor=8.0))


def long_rope(x, positions):
    p = np.asarray(positions, np.float64)
    lam = _LONG if p.size and p.max() >= 512 else _SHORT
    m = math.sqrt(1 + math.log(8.0) / math.log(512.0))
    e = _up(p[..., None] * (_inv(10000.0, 48) / np.array(lam)), positions)
    y = x.copy()
    for k in range(24):
        c, s = m * np.cos(e[..., k]), m * np.sin(e[..., k])
        a, b = x[..., k].astype(np.float64), x[..., k + 24].astype(np.float64)
        y[..., k], y[..., k + 24] = a * c - b * s, b * c + a * s
    return y


# --- e121 (right): Swin's bias by slices of the table -------------------------------------------------------------
_SW = _rng.standard_normal((7 * 5, 3)).astype(np.float32)


def swin_slices(q_len, k_len):
    t = _SW.reshape(7, 5, 3)[::-1, ::-1]  # now indexed by key minus query
    rows = [t[3 - y : 7 - y, 2 - x : 5 - x].reshape(12, 3) for y in range(4) for x in range(3)]
    if k_len > 12:
        raise ValueError("the window has 12 tokens")
    return np.stack(rows).transpose(2, 0, 1)[:, k_len - q_len : k_len, :k_len]


# --- e122 (right): three shears -------------------------------------------------------------------------------
def shears(x, positions):
    e = _up(np.asarray(positions, np.float64)[..., None] * _inv(500000.0, 128), positions)
    e = np.remainder(e, 2 * np.pi)
    turn = (e > np.pi / 2) & (e < 3 * np.pi / 2)  # half a turn is a change of sign
    e = np.where(turn, e - np.pi, e)
    t, s = -np.tan(e / 2), np.sin(e)
    a, b = x[..., :64].astype(np.float64), x[..., 64:].astype(np.float64)
    a = a + t * b
    b = b + s * a
    a = a + t * b
    a, b = np.where(turn, -a, a), np.where(turn, -b, b)
    return np.concatenate([a, b], -1).astype(x.dtype)


# --- e123 (right): decoding by recurrence ----------------------------------------------------------------------
def recurrence(x, chunks):
    step = np.exp(1j * _inv(10000.0, 64))
    now = np.ones(32, np.complex128)
    out = np.empty_like(x)
    at = 0
    for n in chunks:
        for _ in range(n):
            z = (x[..., at, :32] + 1j * x[..., at, 32:].astype(np.float64)) * now
            out[..., at, :32], out[..., at, 32:] = z.real, z.imag
            now = now * step
            now /= np.abs(now)
            at += 1
    return out


# --- e124: as many heads as tokens -------------------------------------------------------------------------------
def _bshd(guess):
    inv = _inv(10000.0, 64)

    def apply(x, positions):  # (B, S, H, D)
        p = np.asarray(positions, np.float64)
        e = p[..., None] * inv
        if guess and p.ndim == 1 and x.shape[2] == p.shape[0]:
            e = e  # broadcasts over the second last axis
        else:
            e = e[..., :, None, :]
        a, b = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
        c, s = np.cos(e), np.sin(e)
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)

    return apply


# --- e125: per-row positions of the keys ----------------------------------------------------------------------------
def _rows(first_only):
    inv = _inv(10000.0, 64)

    def turn(x, p):
        e = _up(np.asarray(p, np.float64)[..., None] * inv, p)
        z = x[..., ::2] + 1j * x[..., 1::2].astype(np.float64)
        z = z * np.exp(1j * e)
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        if first_only and np.ndim(k_positions) == 2:
            k_positions = k_positions[0]
        return turn(q, q_positions), turn(k, k_positions)

    return apply_qk


# --- e126: FoPE, one array of coefficients ----------------------------------------------------------------------------
_C1, _C2 = _rng.standard_normal((2, 2, 6, 6)) * 0.4
FOPE = FoPE(16, _C1, _C2, dropped_sin=0)


def _fope(shared):
    theta = 10000.0 ** (-2 * np.arange(6) / 16)

    def scores(q, k):
        n, m = q.shape[2], k.shape[2]

        def turn(x, p):
            x = x.astype(np.float64)
            e = p[:, None] * theta
            c = np.ones((2, len(p), 8))
            s = np.zeros((2, len(p), 8))
            c[..., :6] = np.cos(e) @ _C1
            s[..., :6] = np.sin(e) @ (_C1 if shared else _C2)
            return np.concatenate([x[..., :8] * c - x[..., 8:] * s, x[..., 8:] * c + x[..., :8] * s], -1)

        a, b = turn(q, np.arange(m - n, m)), turn(k, np.arange(m))
        return (a @ b.swapaxes(-1, -2) / 4.0).astype(q.dtype)

    return scores


# --- e127: ConViT's axes ------------------------------------------------------------------------------------------------
_CW, _CB, _CG = _rng.standard_normal((3, 3)), _rng.standard_normal(3), _rng.standard_normal(3)


def _convit(swapped):
    def bias(q_len, k_len):
        y, x = np.divmod(np.arange(15), 5)
        dy, dx = y[None] - y[:, None], x[None] - x[:, None]
        feats = (dy, dx) if swapped else (dx, dy)
        f = np.stack([*feats, dx**2 + dy**2], -1)
        if k_len > 15:
            raise ValueError("the image has 15 patches")
        whole = ((f @ _CW.T) + _CB).transpose(2, 0, 1).astype(np.float32)
        return whole[:, k_len - q_len : k_len, :k_len]

    return bias


# --- e128: three axes, blocks of channels ------------------------------------------------------------------------------
VIDEO = MultiAxisRoPE(64, sections=(8, 12, 12), layout="blockwise", spacing="restart")


def _video(late):
    """late: the last vector lane of each block holds pairs of the block before."""

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        p = np.stack([p] * 3) if p.ndim == 1 else p
        y, start = x.copy(), 0
        for axis, n in enumerate((8, 12, 12)):
            f = 10000.0 ** (-np.arange(n) / n)
            if late and n % 8:
                f = f.copy()
                f[8:] = f[: n - 8]  # the lane's remainder begins at frequency 0 again
            e = p[axis][..., None] * f
            e = e[:, None] if e.ndim == 3 else e
            a = x[..., start : start + n].astype(np.float64)
            b = x[..., start + n : start + 2 * n].astype(np.float64)
            y[..., start : start + n] = a * np.cos(e) - b * np.sin(e)
            y[..., start + n : start + 2 * n] = b * np.cos(e) + a * np.sin(e)
            start += 2 * n
        return y

    return apply


_RIGHT = dict(right=True, remedy="", mended=None)
H64, I64 = RoPE(64, layout="half"), RoPE(64, layout="interleaved")
DEEPSEEK = RoPE(192, layout="interleaved", rotary_dim=64, rotary_start=128, output_layout="half")
CASES = [
    dict(id="e112", fn=_deepseek(128), encoding=DEEPSEEK, surface="apply", settings={}, **_RIGHT, cause="Reads interleaved pairs of the trailing 64 channels and writes half-split ones, as declared (DeepSeek-V3 in transformers).", cause_key="right-output-layout"),
    dict(id="e113", fn=_deepseek(0), encoding=DEEPSEEK, surface="apply", settings={}, right=False, cause="The leading 64 channels are rotated instead of the trailing 64 (128 .. 191).", cause_key="rotary-start-leading", remedy="rotate channels 128 .. 191", mended=_deepseek(128)),
    dict(id="e114", fn=kerple_binary, encoding=Kerple(_R1, _R2), surface="bias", settings={}, **_RIGHT, cause="log2 with the factor ln 2 folded into r1.", cause_key="right-log2"),
    dict(id="e115", fn=alibi_channels, encoding=ALiBi(8), surface="scores", settings={}, **_RIGHT, cause="The bias is computed by two additional channels of q and k in the matrix product; keys after the query get a positive bias, which the mask hides.", cause_key="right-augmented"),
    dict(id="e116", fn=_torch_half(False), encoding=H64, surface="apply", settings={"backend": "torch", "dtype": "float16"}, **_RIGHT, cause="A torch module that rotates float16 by complex128 turns from torch.polar; the frequencies are a float32 buffer.", cause_key="right-torch-polar"),
    dict(id="e117", fn=_torch_half(True), encoding=H64, surface="apply", settings={"backend": "torch", "dtype": "float16"}, right=False, cause="Module.half() has cast the buffer of frequencies to float16: every frequency but the first has a relative error of up to 2**-11, slow ones more (subnormal).", cause_key="frequencies-float16", remedy="keep the buffer in float32", mended=_torch_half(False)),
    dict(id="e118", fn=_stored(np.int16), encoding=I64, surface="apply", settings={}, right=False, cause="Integer positions are stored as int16: from 32768 on they wrap round to negative numbers.", cause_key="positions-int16", remedy="use int64", mended=_stored(np.int64)),
    dict(id="e119", fn=_stored(np.float32), encoding=I64, surface="apply", settings={"dtype": "float64"}, right=False, cause="Integer positions pass through float32: odd positions above 2**24 are rounded (below, there is no error; a suite that ends before cannot see it).", cause_key="positions-float32-2**24", remedy="convert to float64 directly", mended=_stored(np.float64)),
    dict(id="e120", fn=long_rope, encoding=LONG, surface="apply", settings={}, **_RIGHT, cause="Partial rotary with LongRoPE's two lists, chosen in every call by the largest position; a loop over pairs.", cause_key="right-longrope-loop"),
    dict(id="e121", fn=swin_slices, encoding=SwinBias(_SW, window=(4, 3)), surface="bias", settings={}, **_RIGHT, cause="No index array: the reversed table is cut into one h x w slice for each query.", cause_key="right-slices"),
    dict(id="e122", fn=shears, encoding=RoPE(128, layout="half", base=500000.0), surface="apply", settings={}, **_RIGHT, cause="The rotation as three shears (lifting), after a half turn where the cosine is negative.", cause_key="right-shears"),
    dict(id="e123", fn=recurrence, encoding=H64, surface="decode", settings={}, **_RIGHT, cause="One complex multiplication per token in float64, normalised in every step.", cause_key="right-recurrence"),
    dict(id="e124", fn=_bshd(True), encoding=H64, surface="apply", settings={"tensor_layout": "bshd"}, right=False, cause="The axis of the tokens is guessed by its length: where there are as many heads as tokens (positions (S,), H = S), heads are rotated by position instead of tokens.", cause_key="axis-guessed-h-equals-s", remedy="always insert the head axis after the tokens", mended=_bshd(False)),
    dict(id="e125", fn=_rows(True), encoding=I64, surface="apply_qk", settings={}, right=False, cause="Keys of all batch rows are rotated to the positions of row 0 if positions are given per row; queries are right.", cause_key="k-positions-row-0", remedy="use each row's positions for the keys too", mended=_rows(False)),
    dict(id="e126", fn=_fope(True), encoding=FOPE, surface="scores", settings={}, right=False, cause="The sines are mixed with the coefficients of the cosines (cos_coef) instead of with sin_coef.", cause_key="fope-shared-coefficients", remedy="use sin_coef for the sines", mended=_fope(False)),
    dict(id="e127", fn=_convit(True), encoding=ConViTBias(_CW, _CB, _CG, window=(3, 5)), surface="bias", settings={}, right=False, cause="The first two inputs of the positional projection are (dy, dx) instead of (dx, dy).", cause_key="convit-axes", remedy="put dx first", mended=_convit(False)),
    dict(id="e128", fn=_video(True), encoding=VIDEO, surface="apply", settings={}, right=False, cause="Frequencies are loaded in lanes of 8; the remainder lane of the axes with 12 pairs starts at frequency 0 again, so the last 4 pairs of height and width have the frequencies of their first 4.", cause_key="lane-remainder-frequencies", remedy="continue at frequency 8 in the remainder lane", mended=_video(False)),
]
