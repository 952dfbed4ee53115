"""F1: the scale falls and falls, because every batch holds a NaN."""

import keras
import numpy as np

rng = np.random.default_rng(0)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(4, name="first"), keras.layers.Dense(1)], name="net"
)
model.compile("sgd", "mse")
for _ in range(200):
    x = rng.normal(size=(4, 8)).astype("float32")
    x[2, 5] = np.nan
    model.train_on_batch(x, x[:, :1])
