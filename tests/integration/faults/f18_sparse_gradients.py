"""F18: the gradient of an embedding, which is sparse, is beyond float16's range at a loss scale of 1."""

import keras
import numpy as np

model = keras.Sequential(
    [
        keras.Input((3,), dtype="int32"),
        keras.layers.Embedding(1000, 4, name="words"),
        keras.layers.Flatten(),
        keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(1e3), name="head"),
    ],
    name="net",
)
model.compile("sgd", "mse")
rng = np.random.default_rng(0)
x = rng.integers(0, 1000, size=(160, 3))
# Of the mean square, the derivative of an output is 2 * 1e4 / 4 = 5e3, and that of an embedding 1e3 times that.
model.fit(x, np.full((160, 1), 1e4, "float32"), batch_size=4, verbose=0)
