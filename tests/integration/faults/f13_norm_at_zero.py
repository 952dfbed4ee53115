"""F13: a gradient penalty's norm, whose derivative at 0 is not finite in any precision."""

import keras
import numpy as np
from keras import ops


class Length(keras.layers.Layer):
    """The length of a row."""

    def call(self, x):
        return ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True))


model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(4, kernel_initializer="zeros", name="critic"),
        Length(name="length"),
    ],
    name="net",
)
model.compile("sgd", "mse")
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 8)).astype("float32")
model.fit(x, np.ones((400, 1), "float32"), batch_size=4, verbose=0)
