"""Mixed precision for TensorFlow code without Keras layers: float32 storage, 16-bit compute, loss scaling.

Needs TensorFlow; importing it without raises ``MissingFrameworkError``, which names the extra to install.
"""

from mixte.tensorflow._array_ops import TENSORFLOW as TENSORFLOW
from mixte.tensorflow._autocast_variable import (
    AutocastVariable as AutocastVariable,
    master_weight as master_weight,
)
from mixte.tensorflow._getter import float32_variable_storage_getter as float32_variable_storage_getter
from mixte.tensorflow._loss_scale_optimizer import LossScaleOptimizer as LossScaleOptimizer
from mixte.tensorflow._loss_scaler import LossScaler as LossScaler, UnscaledGradients as UnscaledGradients
from mixte.tensorflow._storage import float32_variable_storage as float32_variable_storage
