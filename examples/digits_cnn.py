"""A small convolutional network that reads handwritten digits. Plain Keras: it does not know mixte.

By default the digits are scikit-learn's (1797 images of 8 x 8), which need no download. With --fashion-mnist they
are Zalando's articles (28 x 28): Debian's package dataset-fashion-mnist if it is installed, else Keras's loader.
"""

import argparse
import gzip
from pathlib import Path

import keras
import numpy as np
from sklearn import datasets

DEBIAN_FASHION_MNIST = Path("/usr/share/dataset-fashion-mnist")


def load_digits():
    """Return scikit-learn's digits: half to train on, also moved by a pixel, and half to test on."""
    digits = datasets.load_digits()
    images = (digits.images / 16.0).astype("float32")[..., np.newaxis]
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = images[order], digits.target[order]
    half = len(images) // 2
    shifts = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
    moved = np.concatenate([np.roll(images[:half], shift, axis=(1, 2)) for shift in shifts])
    return (moved, np.tile(labels[:half], len(shifts))), (images[half:], labels[half:])


def load_fashion_mnist():
    """Return Fashion-MNIST: 60,000 images to train on, 10,000 to test on."""
    if not DEBIAN_FASHION_MNIST.is_dir():
        train, test = keras.datasets.fashion_mnist.load_data()
        return tuple((images[..., np.newaxis] / np.float32(255), labels) for images, labels in (train, test))

    def read(name, offset):
        with gzip.open(DEBIAN_FASHION_MNIST / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=offset)

    sets = []
    for part in ("train", "t10k"):
        labels = read(f"{part}-labels-idx1-ubyte.gz", 8).astype("int64")
        images = read(f"{part}-images-idx3-ubyte.gz", 16).reshape(len(labels), 28, 28, 1)
        sets.append((images / np.float32(255), labels))
    return tuple(sets)


def build_model(image_shape):
    """Return the network: two convolutions with pooling, a dense layer, ten classes."""
    return keras.Sequential(
        [
            keras.Input(image_shape),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fashion-mnist", action="store_true", help="train on Fashion-MNIST")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--learning-rate", type=float, default=5e-3, help="at the start; it falls to zero")
    arguments = parser.parse_args()

    (x_train, y_train), (x_test, y_test) = load_fashion_mnist() if arguments.fashion_mnist else load_digits()
    model = build_model(x_train.shape[1:])
    steps = arguments.epochs * -(-len(x_train) // arguments.batch_size)
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(arguments.learning_rate, steps)),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    model.fit(
        x_train,
        y_train,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        validation_data=(x_test, y_test),
        verbose=2,
    )


if __name__ == "__main__":
    main()
