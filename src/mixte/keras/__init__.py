"""Mixed precision for Keras 3, on TensorFlow, JAX and PyTorch alike.

Importing this imports Keras and the backend that it is set to.
"""

from mixte.keras._apply import AppliedPolicy as AppliedPolicy, apply as apply
from mixte.keras._emulation import EmulatedModel as EmulatedModel, Emulation as Emulation, emulate as emulate
from mixte.keras._governor import use as use
from mixte.keras._guard_callback import NonFiniteGuard as NonFiniteGuard
from mixte.keras._monitor import LossScaleMonitor as LossScaleMonitor
from mixte.keras._optimizer import LossScaleOptimizer as LossScaleOptimizer
from mixte.keras._provenance import LastSkip as LastSkip
from mixte.keras._scaler import LossScaler as LossScaler, ScalerState as ScalerState
from mixte.keras._stateless import Minimized as Minimized, stateless_minimize as stateless_minimize
from mixte.keras._summary import summary as summary
from mixte.keras._together import apply_losses as apply_losses, apply_together as apply_together
from mixte.scaling import TrainingStoppedError as TrainingStoppedError
