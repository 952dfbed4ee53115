"""Mixed precision for Keras 3, on TensorFlow, JAX and PyTorch alike.

Importing this imports Keras and the backend that it is set to.
"""

from mixte.keras._apply import AppliedPolicy as AppliedPolicy, apply as apply
from mixte.keras._governor import use as use
from mixte.keras._optimizer import LossScaleOptimizer as LossScaleOptimizer
from mixte.keras._scaler import LossScaler as LossScaler, ScalerState as ScalerState
