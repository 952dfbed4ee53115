"""The arithmetic of Tensor Cores: D = A x B + C bit for bit, from Volta to Blackwell, in numpy.

Needs no framework and no GPU. The rules, and what they were checked against, are records
(:func:`dot_unit`); docs/how-it-works/tensor-core.md explains them.
"""

from mixte.tensorcore._gemm import (
    Accumulation as Accumulation,
    Chain as Chain,
    Restart as Restart,
    SplitK as SplitK,
)
from mixte.tensorcore._matmul import matmul as matmul
from mixte.tensorcore._scalar import dot_scalar as dot_scalar
from mixte.tensorcore._scaled import scaled_matmul as scaled_matmul
from mixte.tensorcore._unit import Conversion as Conversion, DotUnit as DotUnit, Evidence as Evidence
from mixte.tensorcore._units import (
    ARCHITECTURES as ARCHITECTURES,
    Accumulate as Accumulate,
    Architecture as Architecture,
    dot_unit as dot_unit,
    inputs_of as inputs_of,
)
