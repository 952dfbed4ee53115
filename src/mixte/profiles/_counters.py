"""Hardware counters: the only proof of what a kernel ran on (sources: docs/how-it-works/verify.md)."""

from __future__ import annotations

import re

# nvprof's utilisation levels, Nsight Compute's and CUPTI's tensor pipe and FMA counters, AMD's MFMA counters.
_EVIDENCE = re.compile(
    r"tensor_(?:precision|int)_fu_utilization"
    r"|(?:sm|smsp)__(?:inst_executed_pipe|pipe|ops_path)_tensor"
    r"|smsp?__sass_thread_inst_executed_op_[hfd](?:fma|add|mul)_pred_on"
    r"|SQ_INSTS_(?:VALU_)?MFMA"
    r"|SQ_VALU_MFMA_BUSY_CYCLES"
)


def is_evidence(metric: str) -> bool:
    """Whether a hardware counter says something about Tensor Cores or matrix cores.

    Args:
        metric: The profiler's own name, for example ``"sm__inst_executed_pipe_tensor.sum"``.
    """
    return _EVIDENCE.match(metric) is not None
