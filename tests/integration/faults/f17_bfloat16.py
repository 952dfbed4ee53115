"""F17: in bfloat16 nobody scales or checks, and a target that is infinite is applied, or skipped in silence."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(100, 8)).astype("float32")
y = x[:, :1].copy()
y[3::4] = np.inf  # one in each batch
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(4, name="first"), keras.layers.Dense(1)], name="net"
)
model.compile("sgd", "mse")
model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
