"""What a layer computes in and what it stores: the closed set of precisions."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from mixte._errors import InputError
from mixte.policy._nearest import did_you_mean


class Precision(StrEnum):
    """The dtype that a layer computes in together with the dtype of its variables.

    The members are named as Keras names its dtype policies, so that a member is a valid argument wherever
    Keras takes one: ``keras.DTypePolicy(Precision.mixed_float16)``. The ``mixed_`` members compute in 16 bits
    and keep float32 variables (the master weights); every other member uses one dtype for both.

    Example:
        >>> Precision.mixed_float16.compute_dtype, Precision.mixed_float16.variable_dtype
        ('float16', 'float32')
        >>> Precision.named("bfloat16") is Precision.bfloat16
        True
    """

    float64 = "float64"
    float32 = "float32"
    mixed_float16 = "mixed_float16"
    mixed_bfloat16 = "mixed_bfloat16"
    float16 = "float16"
    bfloat16 = "bfloat16"

    @classmethod
    def named(cls, name: str) -> Precision:
        """Return the precision with a name.

        Args:
            name: One of the members' names, for example ``"mixed_float16"``.

        Raises:
            InputError: No precision has that name; the message suggests the nearest.
        """
        return cls(name)

    @classmethod
    def _missing_(cls, value: object) -> Precision:
        if not isinstance(value, str):
            raise InputError(
                f"a precision is named by a string, not by {value!r} ({type(value).__name__}); "
                f"the names are {', '.join(cls)}"
            )
        raise InputError(
            f"no precision is called {value!r}.{did_you_mean(value, cls)} The names are {', '.join(cls)}."
        )

    @property
    def compute_dtype(self) -> str:
        """The dtype of the layer's inputs and operations: ``"float16"`` for ``mixed_float16``."""
        return self.value.removeprefix("mixed_")

    @property
    def variable_dtype(self) -> str:
        """The dtype of the layer's variables: ``"float32"`` for ``mixed_float16``."""
        return "float32" if self.value.startswith("mixed_") else self.value

    def is_wider_than(self, other: Precision) -> bool:
        """Whether one of the two dtypes has more bits than the other precision's, and none has fewer.

        float16 and bfloat16 are equally wide: each has what the other lacks.
        """
        own = (WIDTH_BITS[self.compute_dtype], WIDTH_BITS[self.variable_dtype])
        others = (WIDTH_BITS[other.compute_dtype], WIDTH_BITS[other.variable_dtype])
        return own != others and all(mine >= yours for mine, yours in zip(own, others, strict=True))


WIDTH_BITS: Final = {"float64": 64, "float32": 32, "float16": 16, "bfloat16": 16}
