"""Rotations: apply, apply_qk, apply_vjp."""

import numpy as np

from posenc_ref import (
    Llama3Scaling,
    MixedRoPE,
    MultiAxisRoPE,
    RoPE,
    XPos,
    YaRN,
)


def _spread(t, positions):
    """(S, P) stays, (B, S, P) gets an axis for the heads."""
    return t[:, None] if np.ndim(positions) == 2 else t


def _inv(base, d):
    return base ** (-np.arange(0, d, 2, dtype=np.float64) / d)


# --- e001: tiles of 16 tokens, the remainder tile ------------------------------------------------
def _tiled(slip):
    inv = _inv(10000.0, 64)

    def apply(x, positions):
        out = np.empty_like(x)
        s = x.shape[-2]
        at = np.asarray(positions, np.float64)
        block = 16
        for start in range(0, s, block):
            n = min(block, s - start)
            if n == block or s < block or not slip:
                p = at[..., start : start + n]
            else:  # the masked load begins at the last whole tile's end minus what is missing
                p = at[..., s - block : s - block + n]
            angle = _spread(p[..., None] * inv, p)
            c, sn = np.cos(angle), np.sin(angle)
            tile = x[..., start : start + n, :].astype(np.float64)
            a, b = tile[..., :32], tile[..., 32:]
            out[..., start : start + n, :] = np.concatenate([a * c - b * sn, b * c + a * sn], -1)
        return out

    return apply


# --- e002: positions assumed to be consecutive ----------------------------------------------------
def _stepped(consecutive):
    step = np.exp(1j * _inv(10000.0, 128))

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if consecutive:
            p = p[..., :1] + np.arange(p.shape[-1])
        turn = _spread(np.exp(1j * (p[..., None] * _inv(10000.0, 128))), p)
        assert step.size == turn.shape[-1]
        z = x[..., 0::2].astype(np.float64) + 1j * x[..., 1::2]
        z = z * turn
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)

    return apply


# --- e003: heads in groups of four; the heads left over are not rotated ----------------------------
def _head_groups(drop):
    inv = _inv(500000.0, 64)

    def rotate(x, p):
        h = x.shape[1]
        angle = np.asarray(p, np.float64)[..., None] * inv
        angle = angle[:, None] if angle.ndim == 3 else angle
        c, s = np.cos(angle), np.sin(angle)
        y = x.copy()
        groups = h // 4 if (drop and h > 4) else -(-h // 4)
        for g in range(groups):
            part = x[:, 4 * g : 4 * g + 4].astype(np.float64)
            a, b = part[..., :32], part[..., 32:]
            y[:, 4 * g : 4 * g + 4] = np.concatenate([a * c - b * s, a * s + b * c], -1)
        return y

    def apply_qk(q, k, q_positions, k_positions):
        return rotate(q, q_positions), rotate(k, k_positions)

    return apply_qk


# --- e004: YaRN's factor on queries only ------------------------------------------------------------
YARN = RoPE(64, layout="half", scaling=YaRN(8.0, 4096))


def _yarn_qk(both):
    inv = YARN.frequencies()
    m = 0.1 * np.log(8.0) + 1.0

    def turn(x, p, factor):
        e = np.einsum("...s,d->...sd", np.asarray(p, np.float64), inv)
        e = _spread(e, p)
        cos = np.concatenate([np.cos(e)] * 2, -1) * factor
        sin = np.concatenate([np.sin(e)] * 2, -1) * factor
        rot = np.concatenate([-x[..., 32:], x[..., :32]], -1)
        return (x * cos + rot * sin).astype(x.dtype)

    def apply_qk(q, k, q_positions, k_positions):
        return turn(q, q_positions, m), turn(k, k_positions, m if both else 1.0)

    return apply_qk


# --- e005: the backward pass divides by m ------------------------------------------------------------
def _yarn_vjp(inverse):
    inv = YARN.frequencies()
    m = 0.1 * np.log(8.0) + 1.0

    def apply_vjp(x, positions, dy):
        e = _spread(np.asarray(positions, np.float64)[..., None] * inv, positions)
        f = 1.0 / m if inverse else m
        c, s = f * np.cos(e), f * np.sin(e)
        a, b = dy[..., :32], dy[..., 32:]
        return np.concatenate([a * c + b * s, b * c - a * s], -1).astype(dy.dtype)

    return apply_vjp


# --- e006 (right): the gradient by explicit block matrices ------------------------------------------
def vjp_by_matrices(x, positions, dy):
    inv = _inv(10000.0, 32)
    p = np.asarray(positions, np.float64)
    e = p[..., None] * inv
    r = np.zeros((*e.shape[:-1], 32, 32))
    k = np.arange(16)
    r[..., 2 * k, 2 * k] = r[..., 2 * k + 1, 2 * k + 1] = np.cos(e)
    r[..., 2 * k, 2 * k + 1] = -np.sin(e)
    r[..., 2 * k + 1, 2 * k] = np.sin(e)
    if p.ndim == 2:
        r = r[:, None]
    return np.einsum("...sij,...si->...sj", r, dy.astype(np.float64)).astype(dy.dtype)


# --- e007: gradient of the channels that pass through ---------------------------------------------
def _partial_vjp(zero):
    def apply_vjp(x, positions, dy):
        inv = _inv(10000.0, 32)
        e = _spread(np.asarray(positions, np.float64)[..., None] * inv, positions)
        dx = np.zeros_like(dy) if zero else dy.copy()
        a, b = dy[..., :16].astype(np.float64), dy[..., 16:32].astype(np.float64)
        dx[..., :16] = a * np.cos(e) + b * np.sin(e)
        dx[..., 16:32] = b * np.cos(e) - a * np.sin(e)
        return dx

    return apply_vjp


# --- e008: M-RoPE, the second half of the channels has the sections in reverse ---------------------
def _mrope(reverse):
    sec = (16, 24, 24)
    inv = _inv(1000000.0, 128)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.broadcast_to(p, (3, *p.shape))
        f = p[..., None] * inv  # (3, [B,] S, 64)

        def pick(order):
            start, parts = 0, []
            for axis, n in order:
                parts.append(f[axis, ..., start : start + n])
                start += n
            return np.concatenate(parts, -1)

        first = pick(list(enumerate(sec)))
        second = pick(list(enumerate(sec))[::-1]) if reverse else first
        e = np.concatenate([first, second], -1)
        e = e[:, None] if p.ndim == 3 else e
        rot = np.concatenate([-x[..., 64:], x[..., :64]], -1)
        return (x * np.cos(e) + rot * np.sin(e)).astype(x.dtype)

    return apply


# --- e009 (right) / e010: interleaved M-RoPE ---------------------------------------------------------
def _interleaved_mrope(whole):
    inv = _inv(5000000.0, 128)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p, p])
        f = p[..., None] * inv
        e = f[0].copy()
        for axis, length in ((1, 20), (2, 20)):
            stop = 64 if whole else 3 * length
            e[..., axis:stop:3] = f[axis][..., axis:stop:3]
        e = e[:, None] if p.ndim == 3 else e
        z = (x[..., :64] + 1j * x[..., 64:].astype(np.float64)) * np.exp(1j * e)
        return np.concatenate([z.real, z.imag], -1).astype(x.dtype)

    return apply


# --- e011: Llama 4 vision, the offset is missing on the second axis --------------------------------
def _vision(columns_too):
    inv = _inv(10000.0, 32)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        rows, cols = p[0] + 1.0, p[1] + (1.0 if columns_too else 0.0)
        e = np.concatenate([rows[..., None] * inv, cols[..., None] * inv], -1)
        e = e[:, None] if p.ndim == 3 else e
        y = np.empty_like(x)
        for j in range(32):
            c, s = np.cos(e[..., j]), np.sin(e[..., j])
            a, b = x[..., 2 * j], x[..., 2 * j + 1]
            y[..., 2 * j] = a * c - b * s
            y[..., 2 * j + 1] = a * s + b * c
        return y

    return apply


# --- e012: MixedRoPE, the parameter (A, H, P) is reshaped and not transposed -----------------------
_rng = np.random.default_rng(12)
_W = _rng.normal(0, 0.7, (2, 4, 16))  # (A, H, P), as the checkpoint holds it
MIXED = MixedRoPE(32, weight=_W.transpose(1, 0, 2), layout="interleaved")


def _mixed(transpose):
    w = _W.transpose(1, 0, 2) if transpose else _W.reshape(4, 2, 16)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        if p.ndim == 1:
            p = np.stack([p, p])
        if p.ndim == 2:
            e = np.einsum("as,hap->hsp", p, w)
        else:
            e = np.einsum("abs,hap->bhsp", p, w)
        z = x[..., ::2] + 1j * x[..., 1::2].astype(np.float64)
        z = z * np.exp(1j * e)
        return np.stack((z.real, z.imag), -1).reshape(x.shape).astype(x.dtype)

    return apply


# --- e013: xPos, zeta from the pair number instead of the channel number ---------------------------
def _xpos(step):
    def apply_qk(q, k, q_positions, k_positions):
        half = np.arange(0, 64, 2)
        zeta = ((half if step == 2 else half // 2) / 64 + 0.4) / 1.4
        inv = 10000.0 ** (-half / 64)

        def one(x, p, sign):
            p = np.asarray(p, np.float64)
            e = _spread(p[..., None] * inv, p)
            size = _spread(zeta ** (sign * p[..., None] / 512.0), p)
            a, b = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
            y = np.stack([(a * np.cos(e) - b * np.sin(e)) * size,
                          (b * np.cos(e) + a * np.sin(e)) * size], -1)
            return y.reshape(x.shape).astype(x.dtype)

        return one(q, q_positions, 1.0), one(k, k_positions, -1.0)

    return apply_qk


# --- e014 (right): declared sign -1, computed with the conjugate ----------------------------------
def conjugate(x, positions):
    p = np.asarray(positions, np.float64)
    cis = np.exp(1j * np.multiply.outer(p, _inv(10000.0, 64)))
    z = x[..., :32].astype(np.complex128)
    z.imag = x[..., 32:]
    z = z * _spread(cis, p).conj()
    return np.concatenate([z.real, z.imag], axis=-1).astype(x.dtype)


# --- e015: memory order of x -------------------------------------------------------------------------
def _memory(order):
    inv = _inv(10000.0, 64)

    def apply(x, positions):
        flat = np.ravel(x, order=order).reshape(x.shape)
        e = _spread(np.asarray(positions, np.float64)[..., None] * inv, positions)
        a, b = flat[..., :32].astype(np.float64), flat[..., 32:].astype(np.float64)
        y = np.concatenate([a * np.cos(e) - b * np.sin(e), b * np.cos(e) + a * np.sin(e)], -1)
        return y.astype(x.dtype)

    return apply


# --- e016: positions in bfloat16 (torch) --------------------------------------------------------------
def _torch_bf16(narrow):
    import torch

    def apply(x, positions):
        inv = 1.0 / (10000.0 ** (torch.arange(0, 64, 2, dtype=torch.float64) / 64))
        p = torch.as_tensor(positions)
        p = p.to(x.dtype).double() if narrow else p.double()
        e = p[..., None] * inv
        if p.ndim == 2:
            e = e[:, None]
        a, b = x[..., :32].double(), x[..., 32:].double()
        y = torch.cat([a * e.cos() - b * e.sin(), b * e.cos() + a * e.sin()], -1)
        return y.to(x.dtype)

    return apply


# --- e017: frequencies in fixed point -------------------------------------------------------------
def _fixed_point(bits):
    turns = _inv(500000.0, 64) / (2 * np.pi)

    def apply(x, positions):
        t = np.rint(turns * 2.0**bits) / 2.0**bits if bits else turns
        p = np.asarray(positions, np.float64)
        phase = p[..., None] * t
        e = _spread(2 * np.pi * (phase - np.floor(phase)), p)
        a, b = x[..., ::2].astype(np.float64), x[..., 1::2].astype(np.float64)
        y = np.stack([a * np.cos(e) - b * np.sin(e), a * np.sin(e) + b * np.cos(e)], -1)
        return y.reshape(x.shape).astype(x.dtype)

    return apply


# --- e018: a table with one row too few, the index clamped --------------------------------------------
class Clamped:
    def __init__(self, rows):
        self.inv = _inv(10000.0, 64)
        self.rows = rows
        self.angles = np.arange(rows)[:, None] * self.inv

    def __call__(self, x, positions):
        p = np.asarray(positions)
        if p.dtype.kind in "iu" and p.size and p.min() >= 0 and p.max() < 2048:
            e = self.angles[np.minimum(p, self.rows - 1)]
        else:
            e = p.astype(np.float64)[..., None] * self.inv
        e = _spread(e, p)
        c, s = np.cos(e), np.sin(e)
        a, b = x[..., :32].astype(np.float64), x[..., 32:].astype(np.float64)
        return np.concatenate([a * c - b * s, b * c + a * s], -1).astype(x.dtype)


# --- e019: keys take the positions of the queries if there are as many ---------------------------
def _shared_positions(share):
    inv = RoPE(64, layout="half", base=500000.0,
               scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)).frequencies()

    def apply_qk(q, k, q_positions, k_positions):
        if share and q.shape[-2] == k.shape[-2]:
            k_positions = q_positions
        out = []
        for x, p in ((q, q_positions), (k, k_positions)):
            e = _spread(np.asarray(p, np.float64)[..., None] * inv, p)
            a, b = np.split(x.astype(np.float64), 2, -1)
            out.append(np.concatenate([a * np.cos(e) - b * np.sin(e),
                                       b * np.cos(e) + a * np.sin(e)], -1).astype(x.dtype))
        return tuple(out)

    return apply_qk


# --- e020: float64 x, frequencies kept in float32 --------------------------------------------------
def _wide(dtype):
    inv = _inv(10000.0, 64).astype(dtype).astype(np.float64)

    def apply(x, positions):
        e = _spread(np.asarray(positions, np.float64)[..., None] * inv, positions)
        a, b = x[..., ::2], x[..., 1::2]
        y = np.empty_like(x)
        y[..., ::2] = a * np.cos(e) - b * np.sin(e)
        y[..., 1::2] = a * np.sin(e) + b * np.cos(e)
        return y

    return apply


HALF64 = RoPE(64, layout="half")
CASES = [
    dict(id="e001", fn=_tiled(True), encoding=HALF64, surface="apply", settings={}, right=False,
         cause="Tokens are rotated in tiles of 16; the last, incomplete tile (S > 16 and S % 16 != 0) reads its positions from index S-16 on instead of from its own start, so the tokens of that tile get positions of earlier tokens.",
         cause_key="tile-remainder-positions", remedy="load positions[start : start + n] for the remainder tile too", mended=_tiled(False)),
    dict(id="e002", fn=_stepped(True), encoding=RoPE(128, layout="interleaved"), surface="apply", settings={}, right=False,
         cause="Only the first position of each row is read; the other tokens get it plus 0, 1, 2, ... so positions with gaps, repeats or another order are ignored.",
         cause_key="consecutive-assumed", remedy="use every entry of positions", mended=_stepped(False)),
    dict(id="e003", fn=_head_groups(True), encoding=RoPE(64, layout="half", base=500000.0), surface="apply_qk", settings={}, right=False,
         cause="Heads are processed in groups of four with H // 4 groups (for H > 4): the H % 4 heads left over at the end are returned without rotation.",
         cause_key="head-remainder-unrotated", remedy="round the number of head groups up", mended=_head_groups(False)),
    dict(id="e004", fn=_yarn_qk(False), encoding=YARN, surface="apply_qk", settings={}, right=False,
         cause="YaRN's attention factor m = 0.1 ln 8 + 1 multiplies the rotated queries only; keys have factor 1, so the logits have m and not m squared.",
         cause_key="attention-factor-q-only", remedy="multiply the keys' cos and sin by m too", mended=_yarn_qk(True)),
    dict(id="e005", fn=_yarn_vjp(True), encoding=YARN, surface="apply_vjp", settings={}, right=False,
         cause="The gradient is computed with the inverse rotation R(-p)/m instead of the transpose m R(-p): YaRN's attention factor divides dy instead of multiplying it.",
         cause_key="vjp-inverse-for-transpose", remedy="multiply cos and sin by m in the backward pass", mended=_yarn_vjp(False)),
    dict(id="e006", fn=vjp_by_matrices, encoding=RoPE(32, layout="interleaved"), surface="apply_vjp", settings={}, right=True,
         cause="Builds the full block-diagonal 32 x 32 rotation of every token and contracts dy with its transpose by einsum.", cause_key="right-matrix", remedy="", mended=None),
    dict(id="e007", fn=_partial_vjp(True), encoding=RoPE(80, layout="half", rotary_dim=32), surface="apply_vjp", settings={}, right=False,
         cause="The gradient of the 48 channels that pass through (32 .. 79) is zero instead of dy.",
         cause_key="vjp-passthrough-zero", remedy="start dx from a copy of dy", mended=_partial_vjp(False)),
    dict(id="e008", fn=_mrope(True), encoding=MultiAxisRoPE(128, sections=(16, 24, 24), layout="half", base=1000000.0), surface="apply", settings={}, right=False,
         cause="The angles of the second channel of each pair (channels 64 .. 127) are laid out with the M-RoPE sections in reverse (24 of width, 24 of height, 16 of time), so in pairs 0 .. 23 and 40 .. 63 the two channels of a pair follow different axes.",
         cause_key="mrope-second-half-sections", remedy="use the same axis order for both halves of the channels", mended=_mrope(False)),
    dict(id="e009", fn=_interleaved_mrope(False), encoding=MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5000000.0), surface="apply", settings={}, right=True,
         cause="Qwen3-VL's interleaved M-RoPE: time angles overwritten with strides of 3 up to 3 * 20, complex rotation of half-split pairs.", cause_key="right-interleaved-mrope", remedy="", mended=None),
    dict(id="e010", fn=_interleaved_mrope(True), encoding=MultiAxisRoPE(128, sections=(24, 20, 20), layout="half", arrangement="interleaved", base=5000000.0), surface="apply", settings={}, right=False,
         cause="Height and width take every third pair up to the last pair instead of only up to pair 3 * 20 = 60: pair 61 follows height and pair 62 width, although they belong to time.",
         cause_key="mrope-interleave-overrun", remedy="stop the strided copy at 3 * section", mended=_interleaved_mrope(False)),
    dict(id="e011", fn=_vision(False), encoding=MultiAxisRoPE(64, sections=(16, 16), layout="interleaved", spacing="restart", offset=1.0), surface="apply", settings={}, right=False,
         cause="The offset 1 is added to the positions of axis 0 only; axis 1 (pairs 16 .. 31) is rotated by p instead of p + 1.",
         cause_key="offset-one-axis", remedy="add the offset on both axes", mended=_vision(True)),
    dict(id="e012", fn=_mixed(False), encoding=MIXED, surface="apply", settings={}, right=False,
         cause="The learned frequencies, stored as (axes, heads, pairs), are reshaped to (heads, axes, pairs) instead of transposed, so heads get weights of other heads and axes (all but head 0's first axis and the last head's second axis).",
         cause_key="mixed-weight-reshape", remedy="transpose the first two axes of the weight", mended=_mixed(True)),
    dict(id="e013", fn=_xpos(1), encoding=XPos(64, layout="interleaved"), surface="apply_qk", settings={}, right=False,
         cause="The decay is zeta_k = (k/d + gamma)/(1 + gamma) with the pair number k instead of 2k, so every pair but pair 0 decays too fast.",
         cause_key="xpos-zeta-step", remedy="use 2k/d", mended=_xpos(2)),
    dict(id="e014", fn=conjugate, encoding=RoPE(64, layout="half", sign=-1), surface="apply", settings={}, right=True,
         cause="The declared sign is -1; the code multiplies by the conjugate of e^(i p theta).", cause_key="right-conjugate", remedy="", mended=None),
    dict(id="e015", fn=_memory("K"), encoding=HALF64, surface="apply", settings={}, right=False,
         cause="x is flattened in memory order (order='K') and reshaped to its logical shape: inputs that are transposed views (not C-contiguous) have their elements permuted.",
         cause_key="noncontiguous-memory-order", remedy="flatten in C order", mended=_memory("C")),
    dict(id="e016", fn=_torch_bf16(True), encoding=HALF64, surface="apply", settings={"backend": "torch", "dtype": "bfloat16"}, right=False,
         cause="Positions are cast to x's dtype bfloat16 before they are multiplied by the frequencies, so positions above 256 are rounded to 8 bits.",
         cause_key="positions-bfloat16", remedy="keep positions in float32 or wider", mended=_torch_bf16(False)),
    dict(id="e017", fn=_fixed_point(26), encoding=RoPE(64, layout="interleaved", base=500000.0), surface="apply", settings={}, right=False,
         cause="The frequencies, in turns per position, are rounded to a fixed-point grid of 2**-26: slow pairs have a large relative error (visible from a few hundred positions on, growing linearly).",
         cause_key="fixed-point-frequencies", remedy="store frequencies in floating point or with more fraction bits", mended=_fixed_point(0)),
    dict(id="e018", fn=Clamped(2047), encoding=HALF64, surface="apply", settings={}, right=False,
         cause="The table of angles for positions below 2048 has only 2047 rows and its index is clamped: position 2047 is rotated as 2046 in calls whose positions are all below 2048 (calls that reach farther compute angles directly and are right).",
         cause_key="table-row-short-clamped", remedy="make the table with 2048 rows", mended=Clamped(2048)),
    dict(id="e019", fn=_shared_positions(True), encoding=RoPE(64, layout="half", base=500000.0, scaling=Llama3Scaling(8.0, 1.0, 4.0, 8192)), surface="apply_qk", settings={}, right=False,
         cause="If there are as many keys as queries, the keys are rotated to the queries' positions; k_positions is ignored.",
         cause_key="k-positions-ignored", remedy="rotate keys to k_positions always", mended=_shared_positions(False)),
    dict(id="e020", fn=_wide(np.float32), encoding=RoPE(64, layout="interleaved"), surface="apply", settings={"dtype": "float64"}, right=False,
         cause="For float64 x the frequencies are stored in float32, so angles have a relative error of 2**-25, far above float64's.",
         cause_key="float32-frequencies-in-float64", remedy="keep the frequencies in float64", mended=_wide(np.float64)),
]
