"""F1: gradients that are beyond float16's range at a loss scale of 1, though outputs and loss are within it."""

import keras
import numpy as np

head = keras.layers.Dense(
    4, kernel_initializer=keras.initializers.Constant(0.5), dtype="mixed_float16", name="head"
)
model = keras.Sequential([keras.Input((4,)), head], name="net")
model.compile("adam", "mse")
# An output is 4 * 1e4 * 0.5 = 2e4. Of the mean of 16 squares its derivative is 2 * 2e4 / 16 = 2.5e3, and that of a
# weight 4 * 1e4 * 2.5e3 = 1e8.
x = np.full((160, 4), 1e4, "float32")
model.fit(x, np.zeros_like(x), batch_size=4, verbose=0)
