"""Loss-scaling laws as pure state machines, and their simulation. Needs numpy only."""

from mixte.scaling._contrib import ContribScale as ContribScale
from mixte.scaling._counters import (
    COUNTER_NAMES as COUNTER_NAMES,
    Counters as Counters,
    count as count,
    initial_counters as initial_counters,
)
from mixte.scaling._dynamic import DynamicScale as DynamicScale
from mixte.scaling._fixed import FixedScale as FixedScale
from mixte.scaling._hysteresis import HysteresisScale as HysteresisScale
from mixte.scaling._law import (
    ArrayOps as ArrayOps,
    LossScaleLaw as LossScaleLaw,
    Observation as Observation,
    Scalar as Scalar,
    ScaleState as ScaleState,
)
from mixte.scaling._logmax import LogMaxScale as LogMaxScale
from mixte.scaling._numpy_ops import NUMPY as NUMPY
from mixte.scaling._presets import PRESETS as PRESETS
from mixte.scaling._progan import ProGanScale as ProGanScale
from mixte.scaling._simulation import (
    Trace as Trace,
    observe as observe,
    simulate as simulate,
    simulate_gradients as simulate_gradients,
)
from mixte.scaling._specification import (
    format_law as format_law,
    law_from_config as law_from_config,
    law_to_config as law_to_config,
    parse_law as parse_law,
)
from mixte.scaling._stopping import (
    DEFAULT_STOP_AFTER as DEFAULT_STOP_AFTER,
    PATIENCE as PATIENCE,
    Descent as Descent,
    StopReason as StopReason,
    StopRule as StopRule,
    Streak as Streak,
    TrainingStoppedError as TrainingStoppedError,
    descent as descent,
    judge as judge,
    lengthened as lengthened,
    skipped_once_more as skipped_once_more,
)
from mixte.scaling._underflow import UnderflowScale as UnderflowScale
