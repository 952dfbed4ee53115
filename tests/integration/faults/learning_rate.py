"""Float32, and a learning rate that is far too high: weights grow until they are not finite."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(400, 8)).astype("float32")
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(4, name="first"), keras.layers.Dense(1)], name="net"
)
model.compile(keras.optimizers.SGD(1e3), "mse")
model.fit(x, x[:, :1], batch_size=4, verbose=0)
