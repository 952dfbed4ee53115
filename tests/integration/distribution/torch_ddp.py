"""DistributedDataParallel in N processes: python torch_ddp.py N RESULT. Process k writes RESULT.k.

The script starts them, as Keras's guide does, unless RANK says that this is one of them, as under torchrun.
"""

import datetime as dt
import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
import keras
import problem
import torch
from precision import policies
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

LIMIT = dt.timedelta(seconds=30)


def train(rank, processes, path):
    torch.set_num_threads(1)
    if processes > 1:
        distributed.init_process_group("gloo", rank=rank, world_size=processes, timeout=LIMIT)
    for policy, result in policies(f"{path}.{rank}"):
        keras.utils.set_random_seed(1)
        with policy:
            model = problem.model(keras)
            model.compile(problem.optimizer(keras), loss="mse")
        network = DistributedDataParallel(model) if processes > 1 else model
        losses = [
            mean(make_step(model, network, step, rank, processes), processes) for step in range(problem.STEPS)
        ]
        problem.finish(result, model, losses)
    if processes > 1:
        distributed.barrier()
        distributed.destroy_process_group()


def make_step(model, network, step, rank, processes):
    problem.die_at(step, rank)
    x, y = problem.share(step, rank, processes)
    model.zero_grad()
    loss = torch.mean((network(torch.from_numpy(x)).float() - torch.from_numpy(y)) ** 2)
    model.optimizer.scale_loss(loss).backward()
    gradients = [weight.value.grad for weight in model.trainable_weights]
    with torch.no_grad():
        model.optimizer.apply(gradients, model.trainable_weights)
    return loss.detach()


def mean(loss, processes):
    if processes > 1:
        distributed.all_reduce(loss)
    return loss / processes


if __name__ == "__main__":
    processes, path = int(sys.argv[1]), sys.argv[2]
    os.environ.setdefault("MASTER_ADDR", "localhost")
    if "RANK" in os.environ or processes == 1:  # started by torchrun, say
        train(int(os.environ.get("RANK", "0")), processes, path)
    else:
        torch.multiprocessing.start_processes(
            train, args=(processes, path), nprocs=processes, join=True, start_method="fork"
        )
