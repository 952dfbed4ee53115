"""F3: squares within a layer are beyond float16's range, though what goes in and comes out is small."""

import keras
import numpy as np
from keras import ops


class Shares(keras.layers.Layer):
    """What share of a row's energy each value has."""

    def call(self, x):
        squares = ops.square(x)
        return squares / ops.sum(squares, axis=-1, keepdims=True)


model = keras.Sequential([keras.Input((8,)), Shares(name="shares"), keras.layers.Dense(1)], name="net")
model.compile("sgd", "mse")
rng = np.random.default_rng(0)
x = 300 + rng.uniform(size=(200, 8)).astype(
    "float32"
)  # the square of 300 is 9e4: infinity over infinity is NaN
model.fit(x, x[:, :1] / 300, batch_size=4, verbose=0)
