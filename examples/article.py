"""Mixed precision in four steps, in the style of TensorFlow 1, on today's TensorFlow.

One linear layer learns that every row of random numbers is of class 0: small enough to read, with all that
mixed precision needs. At the end an overflow is forced, and the step is skipped.

The program exits with 1 if anything that it claims did not hold.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import tensorflow as tf

from mixte.scaling import FixedScale
from mixte.tensorflow import LossScaleOptimizer, float32_variable_storage_getter

v1 = tf.compat.v1

BATCH, INPUTS, OUTPUTS = 64, 104, 16  # multiples of 8, for Tensor Cores
LEARNING_RATE, BETA1 = 0.1, 0.9
LOSS_SCALE = 128
STEPS = 30


def build_model(rows, target):
    """Step 1: the model computes in float16, and its loss in float32."""
    weights = v1.get_variable("weights", [INPUTS, OUTPUTS], rows.dtype)
    biases = v1.get_variable("biases", [OUTPUTS], rows.dtype, v1.zeros_initializer())
    logits = tf.matmul(rows, weights) + biases
    loss = v1.losses.softmax_cross_entropy(target, tf.cast(logits, tf.float32))
    return logits, loss


def build_training(graph):
    with graph.as_default():
        v1.set_random_seed(1234)
        rows = v1.placeholder(tf.float16, [BATCH, INPUTS], name="rows")
        target = tf.one_hot(tf.zeros([BATCH], tf.int32), OUTPUTS)

        # Step 2: trainable variables are stored in float32 and handed out in float16.
        with v1.variable_scope("fp32_storage", custom_getter=float32_variable_storage_getter):
            logits, loss = build_model(rows, target)

        # Step 3: the optimizer scales the loss, unscales the gradients, and skips what is not finite.
        optimizer = LossScaleOptimizer(v1.train.AdamOptimizer(LEARNING_RATE, BETA1), FixedScale(LOSS_SCALE))
        training_opt = optimizer.minimize(loss)
        return rows, logits, loss, optimizer, training_opt


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args(arguments)

    graph = tf.Graph()
    rows, logits, loss, optimizer, training_opt = build_training(graph)
    data = np.random.default_rng(4321).standard_normal((BATCH, INPUTS)).astype(np.float16)

    with v1.Session(graph=graph) as session, graph.as_default():
        session.run(v1.global_variables_initializer())

        # Step 4: train.
        losses = []
        for step in range(1, STEPS + 1):
            loss_now, _ = session.run([loss, training_opt], {rows: data})
            losses.append(float(loss_now))
            print(f"step {step:2}  loss {loss_now:.6f}")

        stored = {variable.op.name: variable.dtype.base_dtype.name for variable in v1.trainable_variables()}
        computed = {op.name: op.outputs[0].dtype.name for op in graph.get_operations() if op.type == "MatMul"}
        print("\nstored in:", *(f"  {dtype}  {name}" for name, dtype in stored.items()), sep="\n")
        print("computed in:", *(f"  {dtype}  {name}" for name, dtype in computed.items()), sep="\n")
        print(f"  {logits.dtype.name}  logits\n  {loss.dtype.name}  loss")

        # Rows of -1000 throughout are misclassified. The gradient of a weight is the mean of row x error, times
        # the scale: about 1000 x 1 x 128 = 128,000, more than float16's largest number, 65504.
        applied_before = session.run(optimizer.counters["applied"])
        before = session.run(v1.trainable_variables())
        overflow_loss, _ = session.run([loss, training_opt], {rows: np.full_like(data, -1000)})
        after = session.run(v1.trainable_variables())
        counters = session.run(optimizer.counters)
        unchanged = all(np.array_equal(old, new) for old, new in zip(before, after, strict=True))
        print(f"\nforced overflow: loss {overflow_loss:.6g}, weights {'unchanged' if unchanged else 'CHANGED'}")
        shown = ("steps", "applied", "skipped", "skipped_inf")
        print("counters:", ", ".join(f"{name} {counters[name]}" for name in shown))

    claims = {
        "every loss is finite": bool(np.isfinite(losses).all()),
        "the loss falls": losses[-1] < losses[0] / 10,
        "variables are stored in float32": set(stored.values()) == {"float32"},
        "matrix products, forward and backward, are computed in float16": set(computed.values()) == {"float16"},
        "all steps but the forced one were applied": applied_before == STEPS == counters["applied"],
        "the overflow was skipped and counted": counters["skipped"] == counters["skipped_inf"] == 1,
        "the skipped step left the weights unchanged": unchanged,
    }
    print()
    for claim, holds in claims.items():
        print("ok    " if holds else "FAILED", claim)
    return 0 if all(claims.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
