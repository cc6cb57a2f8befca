import numpy as np
def freqs(d, base=10000.0):
    return float(base) ** (-np.arange(0, d, 2) / d)
def ang(p, f):
    return np.asarray(p, np.float64)[..., None] * f
def hd(t):
    return t[:, None] if t.ndim == 3 else t
def rot_half(x, c, s):
    w = x.astype(np.float64); h = c.shape[-1]
    a, b, r = w[..., :h], w[..., h:2*h], x[..., 2*h:]
    return np.concatenate([(a*c-b*s).astype(x.dtype), (b*c+a*s).astype(x.dtype), r], -1)
def rot_pair(x, c, s):
    w = x.astype(np.float64); n = 2*c.shape[-1]
    y = np.array(x, copy=True)
    y[..., 0:n:2] = (w[..., 0:n:2]*c - w[..., 1:n:2]*s).astype(x.dtype)
    y[..., 1:n:2] = (w[..., 1:n:2]*c + w[..., 0:n:2]*s).astype(x.dtype)
    return y
