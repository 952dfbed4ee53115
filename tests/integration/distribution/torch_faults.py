"""Two processes of which one goes wrong: python torch_faults.py RESULT. Process k writes RESULT.k."""

import datetime as dt
import json
import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch
from torch import distributed

from mixte.keras import LossScaleOptimizer
from mixte.scaling import FixedScale


def one_step(rank, law, *, loss=1.0, gradient=1.0):
    """Make a step without DistributedDataParallel, so that each process has gradients of its own."""
    variable = keras.Variable([1.0])
    optimizer = LossScaleOptimizer(keras.optimizers.SGD(0.5), law)
    optimizer.build([variable])
    optimizer.scale_loss(torch.tensor(loss))
    with torch.no_grad():
        applied = optimizer.apply([torch.tensor([gradient]) * optimizer.dynamic_scale], [variable])
    state = optimizer.read_state()
    return {
        "applied": bool(applied),
        "weight": float(variable.value.detach()),
        "counters": state.counters,
        "scale": state.scale,
    }


def failure(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
        return {"type": type(error).__name__, "text": str(error), "notes": getattr(error, "__notes__", [])}
    return None


def train(rank, path):
    timeout = dt.timedelta(seconds=30)
    distributed.init_process_group("gloo", rank=rank, world_size=2, timeout=timeout)
    bad = float("inf") if rank == 1 else 1.0
    result = {
        "gradient": one_step(rank, 1024.0, gradient=bad),
        "loss": one_step(rank, 1024.0, loss=bad, gradient=bad),
        "largest": one_step(rank, "logmax", gradient=2.0**rank),
        "scales": failure(one_step, rank, FixedScale(128.0 * (rank + 1))),
    }
    if rank == 1:
        Path(f"{path}.{rank}").write_text(json.dumps(result))
        os._exit(9)
    result["death"] = failure(one_step, rank, 1024.0)
    Path(f"{path}.{rank}").write_text(json.dumps(result))


if __name__ == "__main__":
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    context = torch.multiprocessing.start_processes(
        train, args=(sys.argv[1],), nprocs=2, join=False, start_method="fork"
    )
    for process in context.processes:  # not context.join, which ends the others as soon as one has died
        process.join()
