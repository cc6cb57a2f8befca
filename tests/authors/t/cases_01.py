import math, functools, itertools
import numpy as np
import posenc_ref as P
CASES = []
def case(id, make, encoding, surface, cause, key, remedy="", **settings):
    right = key == "right"
    CASES.append(dict(id=id, fn=make(not right), encoding=encoding, surface=surface, settings=settings,
                      right=right, cause=cause, cause_key=key, remedy=remedy,
                      mended=None if right else make(False)))


def per_head(t):
    """(S, P) stays; (B, S, P) gets an axis for the heads."""
    return t[:, None] if t.ndim == 3 else t


def rotate_half(x):
    h = x.shape[-1] // 2
    return np.concatenate([-x[..., h:], x[..., :h]], axis=-1)


# ---------------------------------------------------------------- partial rotary of a configuration
def make(bug):
    config = dict(hidden_size=2048, num_attention_heads=32, partial_rotary_factor=0.25, rope_theta=10000.0)
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    rot = int(head_dim * config["partial_rotary_factor"])
    dim = head_dim if bug else rot
    inv = 1.0 / config["rope_theta"] ** (np.arange(0, rot, 2, dtype=np.float64) / dim)

    def apply(x, positions):
        freqs = np.asarray(positions, np.float64)[..., None] * inv
        emb = np.concatenate([freqs, freqs], -1)
        cos, sin = per_head(np.cos(emb)).astype(x.dtype), per_head(np.sin(emb)).astype(x.dtype)
        turned, passed = x[..., :rot], x[..., rot:]
        return np.concatenate([turned * cos + rotate_half(turned) * sin, passed], -1).astype(x.dtype)
    return apply
case("t001", make, P.RoPE(64, layout="half", rotary_dim=16), "apply",
     "With partial rotary, the exponents are divided by the head size instead of the number of rotated channels.",
     "exponent-over-head-dim", "Use arange(0, rotary_dim, 2) / rotary_dim.")


# ---------------------------------------------------------------- head_dim that is not hidden / heads
def make(bug):
    config = dict(hidden_size=1024, num_attention_heads=16, head_dim=128, partial_rotary_factor=0.5,
                  rope_theta=1e6)
    if bug:
        size = config["hidden_size"] // config["num_attention_heads"]
    else:
        size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rot = int(size * config["partial_rotary_factor"])
    inv = config["rope_theta"] ** (-np.arange(rot // 2) / (rot // 2))

    def apply(x, positions):
        a = per_head(np.multiply.outer(np.asarray(positions, np.float64), inv))
        c, s = np.cos(a), np.sin(a)
        h = rot // 2
        x1, x2 = x[..., :h], x[..., h:rot]
        out = np.array(x, copy=True)
        out[..., :h] = x1 * c - x2 * s
        out[..., h:rot] = x2 * c + x1 * s
        return out
    return apply
case("t002", make, P.RoPE(128, layout="half", rotary_dim=64, base=1e6), "apply",
     "The number of rotated channels is a fraction of hidden_size // num_attention_heads, although the "
     "configuration has its own head_dim: half as many channels are rotated as should be.",
     "head-dim-from-hidden-size", "Read head_dim from the configuration and fall back to the quotient only without it.")


# ---------------------------------------------------------------- llama3: which length
def make(bug):
    config = {"max_position_embeddings": 131072, "rope_theta": 500000.0, "head_dim": 128,
              "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}}
    rs = config["rope_scaling"]
    old = config["max_position_embeddings"] if bug else rs["original_max_position_embeddings"]

    def frequencies():
        inv = config["rope_theta"] ** -(np.arange(0, 128, 2) / 128)
        wavelen = 2 * np.pi / inv
        low, high = old / rs["low_freq_factor"], old / rs["high_freq_factor"]
        out = np.where(wavelen > low, inv / rs["factor"], inv)
        smooth = (old / wavelen - rs["low_freq_factor"]) / (rs["high_freq_factor"] - rs["low_freq_factor"])
        mid = (1 - smooth) * out / rs["factor"] + smooth * out
        return np.where((wavelen >= high) & (wavelen <= low), mid, out)
    return frequencies
case("t003", make, P.RoPE(128, layout="half", base=5e5, scaling=P.Llama3Scaling(8.0, 1.0, 4.0, 8192)), "frequencies",
     "Llama 3 scaling takes max_position_embeddings (131072) as the trained length instead of "
     "original_max_position_embeddings (8192) of rope_scaling.",
     "trained-length-from-max-position", "Read original_max_position_embeddings from the rope_scaling dictionary.")


# ---------------------------------------------------------------- yarn: factor recomputed
def yarn_inv(base, d, L0, factor, fast=32.0, slow=1.0, truncate=True, top=None, step=1):
    def find(turns):
        return d * math.log(L0 / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = find(fast), find(slow)
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1 if top is None else top)
    ramp = np.clip((np.arange(d // 2) * step - low) / max(high - low, 1e-3), 0, 1)
    plain = base ** -(np.arange(0, d, 2) / d)
    return plain * (1 - ramp) + plain / factor * ramp


def make(bug):
    config = {"max_position_embeddings": 40960, "rope_theta": 1e6, "head_dim": 128,
              "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}
    rs = config["rope_scaling"]
    L0 = rs["original_max_position_embeddings"]
    factor = config["max_position_embeddings"] / L0 if bug else rs["factor"]
    inv, m = yarn_inv(1e6, 128, L0, factor), 0.1 * math.log(factor) + 1.0

    def cos_sin(positions):
        a = np.outer(np.asarray(positions, np.float64), inv)
        return (m * np.cos(a)).astype(np.float32), (m * np.sin(a)).astype(np.float32)
    return cos_sin
case("t004", make, P.RoPE(128, layout="half", base=1e6, scaling=P.YaRN(4.0, 32768)), "cos_sin",
     "YaRN's factor is recomputed as max_position_embeddings / original length (1.25) instead of the "
     "factor 4 that rope_scaling states.",
     "yarn-factor-recomputed", "Take factor from rope_scaling as it is.")


# ---------------------------------------------------------------- yarn: fast and slow exchanged
def make(bug):
    d, base, L0, s = 64, 10000.0, 4096, 16.0

    def correction_range(low_rot, high_rot):
        f = lambda r: d * math.log(L0 / (r * 2 * math.pi)) / (2 * math.log(base))
        return max(math.floor(f(low_rot)), 0), min(math.ceil(f(high_rot)), d - 1)
    low, high = correction_range(beta_slow, beta_fast) if bug else correction_range(beta_fast, beta_slow)
    k = np.arange(d // 2)
    ramp = np.clip((k - low) / (high - low if high != low else 1e-3), 0, 1)
    inv = base ** (-2.0 * k / d)
    inv = inv / s * ramp + inv * (1 - ramp)
    m = 0.1 * math.log(s) + 1

    def apply(x, positions):
        t = np.asarray(positions, np.float64)[..., None] * inv
        c, sn = per_head(np.cos(t) * m), per_head(np.sin(t) * m)
        a, b = np.split(x, 2, -1)
        return np.concatenate([a * c - b * sn, b * c + a * sn], -1).astype(x.dtype)
    return apply
beta_fast, beta_slow = 32, 1
case("t005", make, P.RoPE(64, layout="half", scaling=P.YaRN(16.0, 4096)), "apply",
     "beta_slow and beta_fast are passed to the correction range in the wrong order, so the ramp runs the "
     "wrong way: the fast pairs are interpolated and the slow ones kept.",
     "beta-order", "Pass beta_fast first: it gives the lower end of the ramp.")


# ---------------------------------------------------------------- yarn: the upper clamp
def make(bug):
    inv = yarn_inv(10000.0, 64, 131072, 8.0, top=31 if bug else 63)
    return lambda: (inv, 0.1 * math.log(8.0) + 1)
case("t006", make, P.RoPE(64, layout="interleaved", scaling=P.YaRN(8.0, 131072)), "frequencies",
     "The upper end of YaRN's correction range is clamped to d/2 - 1 instead of d - 1, which steepens the ramp.",
     "yarn-high-clamp", "Clamp the upper end at d - 1 as the published code does.")


# ---------------------------------------------------------------- yarn: truncate of gpt-oss
def make(bug):
    rs = {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0, "original_max_position_embeddings": 4096,
          "rope_type": "yarn", "truncate": False}
    inv = yarn_inv(150000.0, 64, 4096, rs["factor"], truncate=True if bug else rs.get("truncate", True))
    m = 0.1 * math.log(rs["factor"]) + 1

    def cos_sin(positions):
        a = np.asarray(positions, np.float64)[:, None] * inv[None]
        a = np.concatenate([a, a], 1)
        return np.cos(a) * m, np.sin(a) * m
    return cos_sin
case("t007", make, P.RoPE(64, layout="half", base=150000.0, scaling=P.YaRN(32.0, 4096, truncate=False)), "cos_sin",
     "truncate=False of the configuration is not read: the ends of YaRN's ramp are rounded to whole pairs.",
     "truncate-ignored", "Round the ends only if truncate is true (gpt-oss has false).")


# ---------------------------------------------------------------- yarn: mscale of DeepSeek
def make(bug):
    rs = {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "beta_fast": 32, "beta_slow": 1,
          "original_max_position_embeddings": 4096}

    def get_mscale(scale, mscale=1.0):
        return 1.0 if scale <= 1 else 0.1 * mscale * math.log(scale) + 1.0
    m = get_mscale(rs["factor"], rs["mscale"])
    if not bug:
        m /= get_mscale(rs["factor"], rs["mscale_all_dim"])
    inv = yarn_inv(10000.0, 64, 4096, 40.0)

    def apply(x, positions):
        z = x[..., 0::2].astype(np.float64) + 1j * x[..., 1::2]
        z = z * per_head(m * np.exp(1j * (np.asarray(positions, np.float64)[..., None] * inv)))
        return np.stack([z.real, z.imag], -1).reshape(x.shape).astype(x.dtype)
    return apply
case("t008", make, P.RoPE(64, layout="interleaved", scaling=P.YaRN(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)), "apply",
     "The factor on cos and sin is g(mscale) alone; it is not divided by g(mscale_all_dim), which makes it 1 in DeepSeek-V3.",
     "mscale-all-dim-ignored", "Use g(mscale) / g(mscale_all_dim).")


# ---------------------------------------------------------------- longrope
SHORT = [1.0 + 0.02 * k for k in range(16)]
LONG = [1.0 + 0.5 * k for k in range(16)]
PHI = {"max_position_embeddings": 2048, "original_max_position_embeddings": 256, "rope_theta": 10000.0}
LR = P.LongRoPE(SHORT, LONG, 256, factor=8.0)


def make(bug):
    s = PHI["max_position_embeddings"] / PHI["original_max_position_embeddings"]
    ref = PHI["max_position_embeddings"] if bug else PHI["original_max_position_embeddings"]
    m = math.sqrt(1 + math.log(s) / math.log(ref))
    inv = 10000.0 ** -(np.arange(16) / 16)

    def cos_sin(positions):
        p = np.asarray(positions, np.float64)
        ext = np.array(LONG if p.max() + 1 > 256 else SHORT)
        a = p[:, None] * (inv / ext)
        return m * np.cos(a), m * np.sin(a)
    return cos_sin
case("t009", make, P.RoPE(32, layout="half", scaling=LR), "cos_sin",
     "LongRoPE's factor divides by the logarithm of max_position_embeddings instead of the original length.",
     "longrope-log-length", "m = sqrt(1 + ln(factor) / ln(original_max_position_embeddings)).")


def make(bug):
    m = math.sqrt(1 + math.log(8.0) / math.log(256))
    inv = 10000.0 ** -(np.arange(16) / 16)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)
        n = x.shape[-2] if bug else int(p.max()) + 1
        a = per_head(p[..., None] * (inv / np.array(LONG if n > 256 else SHORT)))
        c, s = np.tile(np.cos(a), 2) * m, np.tile(np.sin(a), 2) * m
        return (x * c + rotate_half(x) * s).astype(x.dtype)
    return apply
case("t010", make, P.RoPE(32, layout="half", scaling=LR), "apply",
     "LongRoPE chooses its list by the number of tokens of the call instead of the largest position, so a "
     "decoding step far behind the trained length uses the short list.",
     "longrope-by-call-length", "Compare max(position_ids) + 1 with the original length.")


def make(bug):
    inv = 10000.0 ** -(np.arange(16) / 16)

    def frequencies(seq_len):
        long = seq_len >= 256 if bug else seq_len > 256
        return inv / np.array(LONG if long else SHORT), math.sqrt(1 + math.log(8.0) / math.log(256))
    return frequencies
case("t011", make, P.RoPE(32, layout="half", scaling=LR), "frequencies",
     "The long list of LongRoPE is used from exactly the original length on, one token too early.",
     "longrope-switch-off-by-one", "Switch where seq_len > original_max_position_embeddings.")


# ---------------------------------------------------------------- dynamic NTK and partial rotary
def make(bug):
    head_dim, rot, L0, factor, base = 64, 32, 64, 4.0, 10000.0

    def frequencies(seq_len):
        n = max(seq_len or 0, L0)
        d = head_dim if bug else rot
        b = base * (factor * n / L0 - (factor - 1)) ** (d / (d - 2))
        return 1.0 / b ** (np.arange(0, rot, 2) / rot)
    return frequencies
case("t012", make, P.RoPE(64, layout="half", rotary_dim=32, scaling=P.DynamicNTK(4.0, 64)), "frequencies",
     "The exponent d / (d - 2) of the dynamic base uses the head size, not the number of rotated channels.",
     "ntk-exponent-head-dim", "Use rotary_dim in the exponent as well.")


# ---------------------------------------------------------------- qwen's steps
def make(bug):
    def frequencies(seq_len):
        x = math.log2(max(seq_len, 1) / 128) + 1
        n = int(x) if bug else math.ceil(x)
        alpha = max(2 ** n - 1, 1) if n > 0 else 1
        base = 10000.0 * alpha ** (64 / 62)
        return base ** -(np.arange(0, 64, 2) / 64)
    return frequencies
case("t013", make, P.RoPE(64, layout="half", scaling=P.QwenNTK(128)), "frequencies",
     "Qwen's NTK alpha rounds log2(length / trained length) + 1 down instead of up.",
     "qwen-alpha-floor", "Use math.ceil, as get_ntk_alpha does.")


# ---------------------------------------------------------------- yarn: ramp over channels
def make(bug):
    inv = yarn_inv(1e6, 128, 32768, 4.0, step=2 if bug else 1)
    m = 0.1 * math.log(4.0) + 1

    def apply(x, positions):
        a = per_head(np.asarray(positions, np.float64)[..., None] * inv)
        c, s = np.repeat(np.cos(a), 2, -1) * m, np.repeat(np.sin(a), 2, -1) * m
        y = np.empty_like(x)
        y[..., ::2], y[..., 1::2] = -x[..., 1::2], x[..., ::2]
        return (x * c + y * s).astype(x.dtype)
    return apply
case("t014", make, P.RoPE(128, layout="interleaved", base=1e6, scaling=P.YaRN(4.0, 32768)), "apply",
     "YaRN's ramp is evaluated at channel numbers 0, 2, 4, ... instead of pair numbers, so it ends twice as early.",
     "ramp-over-channels", "Use arange(d / 2) in the ramp.")


# ---------------------------------------------------------------- linear scaling of positions
def make(bug):
    inv = 10000.0 ** -(np.arange(0, 64, 2) / 64)

    def apply(x, positions):
        p = np.asarray(positions)
        t = (p // 4 if bug else p / 4.0).astype(np.float64)
        a = per_head(t[..., None] * inv)
        a1, a2 = x[..., :32], x[..., 32:]
        return np.concatenate([a1 * np.cos(a) - a2 * np.sin(a), a2 * np.cos(a) + a1 * np.sin(a)], -1).astype(x.dtype)
    return apply
case("t015", make, P.RoPE(64, layout="half", scaling=P.LinearScaling(4.0)), "apply",
     "Positions are divided by the factor in integer arithmetic, so four tokens share one position.",
     "integer-division", "Divide as floating point, or divide the frequencies.")


# ---------------------------------------------------------------- layer types: the scaling of the other type
def make(bug):
    config = {"rope_theta": 1e6, "rope_local_base_freq": 10000.0, "head_dim": 256,
              "rope_scaling": {"rope_type": "linear", "factor": 8.0}}

    def init(layer_type):
        theta = config["rope_local_base_freq" if layer_type == "sliding_attention" else "rope_theta"]
        inv = 1.0 / theta ** (np.arange(0, config["head_dim"], 2) / config["head_dim"])
        if bug or layer_type == "full_attention":
            inv = inv / config["rope_scaling"]["factor"]
        return inv
    return lambda: init("sliding_attention")
case("t016", make, P.RoPE(256, layout="half", base=10000.0), "frequencies",
     "rope_scaling is applied to the sliding layers too; in Gemma 3 it belongs to the full layers only.",
     "scaling-in-sliding-layers", "Build the local rotary embedding without rope_scaling.")


# ---------------------------------------------------------------- proportional read as partial
def make(bug):
    d, frac, base = 64, 0.25, 1e6
    n = int(frac * d // 2)
    inv = np.zeros(d // 2)
    inv[:n] = base ** -(np.arange(n) * 2 / d)

    def apply(x, positions):
        p = np.asarray(positions, np.float64)[..., None]
        if bug:
            a = per_head(p * inv[:n])
            x1, x2, rest = x[..., :n], x[..., n:2 * n], x[..., 2 * n:]
            return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a), rest],
                                  -1).astype(x.dtype)
        a = per_head(p * inv)
        x1, x2 = np.split(x, 2, -1)
        return np.concatenate([x1 * np.cos(a) - x2 * np.sin(a), x2 * np.cos(a) + x1 * np.sin(a)], -1).astype(x.dtype)
    return apply
case("t017", make, P.RoPE(64, layout="half", base=1e6, scaling=P.Proportional(0.25)), "apply",
     "Proportional RoPE is treated as partial rotary: channel k is paired with k + 8 inside the first 16 channels, "
     "not with k + 32 of the whole head.",
     "proportional-as-partial", "Keep all pairs of the head and give the slow ones frequency 0.")


# ---------------------------------------------------------------- right
def make(bug):
    """Reads every spelling of a configuration."""
    raw = {"rope_theta": 1e6, "hidden_size": 2048, "num_attention_heads": 16,
           "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768,
                            "beta_fast": None}}
    rs = {k: v for k, v in raw["rope_scaling"].items() if v is not None}
    kind = rs.get("rope_type", rs.get("type"))
    d = raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"]
    assert kind == "yarn"

    def frequencies():
        out = []
        lo, hi = (d * math.log(rs["original_max_position_embeddings"] / (r * math.tau)) / (2 * math.log(raw["rope_theta"]))
                  for r in (rs.get("beta_fast", 32), rs.get("beta_slow", 1)))
        lo, hi = max(math.floor(lo), 0), min(math.ceil(hi), d - 1)
        for k in range(d // 2):
            f = raw["rope_theta"] ** (-2 * k / d)
            keep = 1 - min(max((k - lo) / (hi - lo), 0.0), 1.0)
            out.append(f / rs["factor"] * (1 - keep) + f * keep)
        return np.array(out)
    return frequencies
case("t076", make, P.RoPE(128, layout="half", base=1e6, scaling=P.YaRN(4.0, 32768)), "frequencies",
     "A scalar loop over a configuration with the old key 'type' and a null entry; it returns no attention factor.", "right")


def make(bug):
    low, high, s, L0 = 1.0, 4.0, 32.0, 8192

    def one(f):
        wave = math.tau / f
        if wave < L0 / high:
            return f
        if wave > L0 / low:
            return f / s
        t = (L0 / wave - low) / (high - low)
        return (1 - t) * f / s + t * f
    inv = np.array([one(500000.0 ** (-k / 32)) for k in range(32)])

    def apply(x, positions):
        pos = np.asarray(positions, np.float64)
        ang = np.einsum("...s,k->...sk", pos, inv)
        ang = ang if ang.ndim == 2 else ang[:, None]
        pair = x.reshape(*x.shape[:-1], 2, 32)
        rot = np.stack([np.stack([np.cos(ang), -np.sin(ang)], -2), np.stack([np.sin(ang), np.cos(ang)], -2)], -3)
        return np.einsum("...abk,...bk->...ak", rot, pair).reshape(x.shape).astype(x.dtype)
    return apply
case("t077", make, P.RoPE(64, layout="half", base=5e5, scaling=P.Llama3Scaling(32.0, 1.0, 4.0, 8192)), "apply",
     "Llama 3 scaling branch by branch on wavelengths, and one 2 x 2 matrix per pair in an einsum.", "right")


def make(bug):
    m = math.sqrt(1 + math.log(8.0) / math.log(256))

    def cos_sin(positions):
        p = np.asarray(positions, np.float64)
        lam = np.array(LONG) if p.max(initial=0) >= 256 else np.array(SHORT)
        z = m * np.exp(1j * p[:, None] / (lam * 10000.0 ** (np.arange(16) / 16)))
        return np.concatenate([z.real, z.real], 1).astype(np.float32), np.concatenate([z.imag, z.imag], 1).astype(np.float32)
    return cos_sin
case("t078", make, P.RoPE(32, layout="half", scaling=LR), "cos_sin",
     "Tables of full width from a complex exponential; periods are multiplied by the divisors, and the switch is "
     "written as largest position >= original length.", "right")
