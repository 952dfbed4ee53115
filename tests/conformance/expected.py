"""What forced overflow must lead to: one set of constants, with which every backend and every loop is compared.

Written out by hand from the law (loss scale halved at once on overflow, doubled after the third clean step in a
row), not computed by it.
"""

INITIAL_SCALE = 1024.0
GROWTH_INTERVAL = 3

OVERFLOWS = (False, True, True, False, False, False, True, False, False, False, False, False)
"""Whether the gradients of each step are not finite."""

SCALES = (1024.0, 1024.0, 512.0, 256.0, 256.0, 256.0, 512.0, 256.0, 256.0, 256.0, 512.0, 512.0)
"""The scale that multiplies the loss of each step."""

FINAL_SCALE = 512.0

APPLIED = tuple(not overflow for overflow in OVERFLOWS)

HISTORY = ((2, 512.0), (3, 256.0), (6, 512.0), (7, 256.0), (10, 512.0))
"""The changes of the scale: after which step, counted from 1, and to what."""

COUNTS = {
    "steps": 12,
    "applied": 9,
    "skipped": 3,
    "skipped_nan": 3,
    "skipped_inf": 0,
    "skipped_loss": 0,
    "consecutive_skipped": 0,
    "calibration_skips": 0,
}
"""The infinite feature saturates a tanh, so the loss is finite; its gradient is infinity times zero: NaN."""
