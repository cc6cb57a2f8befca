"""RIFLEx: the pair that makes long videos repeat is slowed to less than one period."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from posenc_ref import _validate as validate
from posenc_ref.angles import TWO_PI, decimal_context
from posenc_ref.limits import LENGTH

from .scaling import FrequencySchedule, standard_schedule


@dataclass(frozen=True, eq=False, repr=False)
class RIFLEx(FrequencySchedule):
    """Reduced intrinsic frequency: one pair turns at most ``periods`` times in a whole video.

    Formula
        ``theta_{pair - 1} = 2 pi periods / length`` with ``fine_tuned``, or if ``length`` is
        greater than the pair's period ``2 pi base ** (2 (pair - 1)/d)``, rounded to an integer;
        all other frequencies are ``base ** (-2k/d)``, and m = 1.
    Source
        Zhao et al. 2025, *RIFLEx: A Free Lunch for Length Extrapolation in Video Diffusion
        Transformers*, arXiv:2502.15894, equation (8); thu-ml/RIFLEx, ``riflex_utils.py``, whose
        function always replaces the frequency.  The condition is that of its callers,
        ``hunyuanvideo.py`` and ``cogvideox.py``: ``L_test > N_k``, or ``--finetune``.
    Traps
        Pairs are counted from 1.  Only the time axis changes: give :class:`MultiAxisRoPE` this
        scaling with ``scaled_axes=(0,)``; a port that changed every axis was corrected by the
        authors (ComfyUI-HunyuanVideoWrapper#411).  The frequency is replaced before it is
        multiplied by positions; replacing row ``pair - 1`` of the angles instead changes one frame
        (ComfyUI-WanVideoWrapper#94).  Without training, videos within one period stay as they
        are; a model that was trained with the slowed frequency needs it at every length.  The paper
        has ``periods=1``, the released code 0.9.

    Parameters
    ----------
    pair : int
        k of the paper, counted from 1: the pair whose period is nearest to the first frame, in
        latent frames, at which videos repeat.  4 for HunyuanVideo, 2 for CogVideoX-5B.
    length : int
        Latent frames of the video, L s in the paper: the trained length times the extension.
    periods : float
        The part of a period that the video takes, greater than 0 and at most 1.
    fine_tuned : bool
        Whether the model was trained with the slowed frequency.  The authors' fine-tuned models
        have one frequency for all videos: ``length`` is then the period N_k, 50 for HunyuanVideo
        and 20 for CogVideoX-5B.
    """

    pair: int
    length: int
    _: KW_ONLY
    periods: float = 1.0
    fine_tuned: bool = False

    def __post_init__(self) -> None:
        periods = validate.real("periods", self.periods, above=0.0)
        if periods > 1:
            raise ValueError(f"periods must be at most 1, got {periods:g}")
        self._set(
            pair=validate.size("pair", self.pair, minimum=1),
            length=validate.integer("length", self.length, minimum=1, maximum=LENGTH),
            periods=periods,
            fine_tuned=validate.boolean("fine_tuned", self.fine_tuned),
        )

    def schedule(self, base: float, rotary_dim: int, seq_len: int | None) -> tuple[Decimal, ...]:
        """Return the frequencies, of which that of ``pair`` is reduced."""
        plain = standard_schedule(base, rotary_dim)
        if self.pair > len(plain):
            raise ValueError(f"pair must be at most d/2 = {len(plain)}, got {self.pair}")
        k = self.pair - 1
        with decimal_context():
            period = (TWO_PI / plain[k]).to_integral_value(ROUND_HALF_EVEN)
            if self.length <= period and not self.fine_tuned:
                return plain
            slowed = TWO_PI * Decimal(self.periods) / self.length
        return (*plain[:k], slowed, *plain[k + 1 :])
