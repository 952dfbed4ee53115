"""The laws of other projects, by name, with the parameters that reproduce them.

Where a project has no bound, the preset has the widest one that keeps the scale a positive normal float32:
there the original can reach 0 or inf, and write NaN weights, and ours stops.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from mixte.scaling._bounds import FLOAT32_MAX, FLOAT32_TINY
from mixte.scaling._contrib import ContribScale
from mixte.scaling._dynamic import DynamicScale
from mixte.scaling._hysteresis import HysteresisScale
from mixte.scaling._logmax import LogMaxScale
from mixte.scaling._progan import ProGanScale

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixte.scaling._law import LossScaleLaw

PRESETS: Final[Mapping[str, LossScaleLaw]] = MappingProxyType(
    {
        # keras-team/keras@3422977, keras/src/optimizers/loss_scale_optimizer.py. No bounds there.
        "keras": DynamicScale(2.0**15, min_scale=FLOAT32_TINY, max_scale=FLOAT32_MAX),
        # keras-team/tf-keras@dd0a723, LossScaleOptimizer; the same law as TensorFlow's own DynamicLossScale,
        # tensorflow/python/training/experimental/loss_scale.py.
        "tf_keras": DynamicScale(2.0**15, min_scale=1.0, max_scale=FLOAT32_MAX),
        # torch/amp/grad_scaler.py. No bounds there; growth to inf is refused there too.
        "torch": DynamicScale(2.0**16, min_scale=FLOAT32_TINY, max_scale=FLOAT32_MAX),
        # google-deepmind/jmp, jmp/_src/loss_scale.py, with the start of its documentation. Its counter is
        # compared before it is raised, with period - 1, so growth follows the 2000th clean step as here.
        "jmp": DynamicScale(2.0**15, min_scale=1.0, max_scale=FLOAT32_MAX),
        # google/flax, flax/training/dynamic_scale.py. Its counter is compared before it is raised, with the
        # interval itself, so its growth_interval of 2000 means growth on clean step 2001.
        "flax": DynamicScale(2.0**16, growth_interval=2001, min_scale=FLOAT32_TINY, max_scale=FLOAT32_MAX),
        # NVIDIA/apex, apex/amp/scaler.py (removed 2025-05-08). No lower bound there.
        "apex": DynamicScale(2.0**16, min_scale=FLOAT32_TINY, max_scale=2.0**24),
        # NVIDIA/apex, apex/fp16_utils/loss_scaler.py: grows when (iteration - last overflow) is a multiple of
        # 1000, which is the 1000th clean step in a row, the 2000th, ...
        "apex_fp16_utils": DynamicScale(2.0**32, growth_interval=1000, min_scale=1.0, max_scale=FLOAT32_MAX),
        # NVIDIA/apex, csrc/update_scale_hysteresis.cu (2023); the caller gives the parameters.
        "apex_hysteresis": HysteresisScale(
            2.0**16, hysteresis=2, refill_on="clean_step", min_scale=FLOAT32_TINY, max_scale=FLOAT32_MAX
        ),
        # NVIDIA/OpenSeq2Seq@8681d38, open_seq2seq/optimizers/automatic_loss_scaler.py: BackoffScaler, with the
        # same rule for growth as apex.fp16_utils, and LogMaxScaler, with its error.
        "openseq2seq_backoff": DynamicScale(2.0**14, min_scale=1.0, max_scale=2.0**14),
        "openseq2seq_logmax": LogMaxScale(variant="published"),
        # TensorFlow 1.15, tensorflow/contrib/mixed_precision/python/loss_scale_manager.py. The start and the
        # interval have no default there: this is the pair that Keras took over, and the documentation's 5000.
        "contrib": ContribScale(2.0**15, max_scale=FLOAT32_MAX),
        "contrib_5000": ContribScale(5000.0, max_scale=FLOAT32_MAX),
        # NVIDIA/DeepLearningExamples: NCF neumf.py and UNet_Industrial; BERT optimization.py, manual path.
        "nvidia_ncf": ContribScale(2.0**32, growth_interval=1000, max_scale=FLOAT32_MAX),
        "nvidia_bert": ContribScale(2.0**32, growth_interval=1000, backoff_factor=0.5, max_scale=FLOAT32_MAX),
        # tkarras/progressive_growing_of_gans, tfutil.py; StyleGAN v1. No bounds there.
        "progan": ProGanScale(2.0**64, min_scale=FLOAT32_TINY, max_scale=2.0**127),
        # deepspeedai/DeepSpeed@edaa722, deepspeed/runtime/fp16/loss_scaler.py. Growth on clean step 1001 after
        # an overflow, every 1000 from there. There the scaler raises an error at the minimum.
        "deepspeed": HysteresisScale(
            2.0**16,
            growth_interval=1000,
            growth_delay=1,
            hysteresis=2,
            refill_on="growth",
            min_scale=1.0,
            max_scale=FLOAT32_MAX,
        ),
        "deepspeed_consecutive": HysteresisScale(
            2.0**16,
            growth_interval=1000,
            growth_delay=1,
            hysteresis=2,
            refill_on="clean_step",
            min_scale=1.0,
            max_scale=FLOAT32_MAX,
        ),
    }
)
"""The loss-scaling laws of other projects, by name. Each reproduces that project's sequence of scales."""
