"""F24: a sigmoid is exactly 1 in float16 from about 8.3 on, and the logarithm of what is left of it is not finite."""

import keras
import numpy as np
from keras import ops


def cross_entropy(y, p):
    """Binary cross-entropy, of probabilities."""
    return -ops.mean(y * ops.log(p) + (1 - y) * ops.log(1 - p))


ones = keras.initializers.Constant(3.0)
model = keras.Sequential(
    [
        keras.Input((4,)),
        keras.layers.Dense(
            1, activation="sigmoid", kernel_initializer=ones, dtype="mixed_float16", name="probability"
        ),
    ],
    name="net",
)
model.compile("sgd", cross_entropy)
# A logit of 12: 1 - sigmoid is 6e-6, which float16 cannot tell from 0 beside 1.
model.fit(np.ones((200, 4), "float32"), np.zeros((200, 1), "float32"), batch_size=4, verbose=0)
