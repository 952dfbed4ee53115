"""F4: attention whose mask constant, -1e9, is -inf in float16: where all is masked, softmax gives NaN."""

import keras
import numpy as np
from keras import ops


class MaskedAttention(keras.layers.Layer):
    """Attention of a sequence to itself."""

    def call(self, x, mask):
        mask = ops.cast(mask, x.dtype)[:, None, :]
        scores = ops.matmul(x, ops.transpose(x, (0, 2, 1))) + mask * -1e9
        return ops.matmul(ops.softmax(scores), x)


x, mask = keras.Input((3, 4)), keras.Input((3,))
outputs = keras.layers.Dense(1)(MaskedAttention(name="attention")(x, mask))
model = keras.Model([x, mask], outputs, name="net")
model.compile("sgd", "mse")
rng = np.random.default_rng(0)
sequences = rng.normal(size=(200, 3, 4)).astype("float32")
model.fit([sequences, np.ones((200, 3), "float32")], sequences[..., :1], batch_size=4, verbose=0)
