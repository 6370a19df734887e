"""Classify handwritten digits on the machine, and compare with FP32 on the host.

    python demos/kohakutpu/digits.py [--hardware]

A small network is trained here in numpy, on three quarters of scikit-learn's bundled digits. The
rest is classified twice with the same weights: in numpy, and through kernels on the machine that
`KTPU_DEVICE` and `KTPU_MACHINE` choose. The exit status is 1 if the accuracies differ by more than
half a point.

With ``--hardware`` some of the digits are classified once more, by the hardware's description in a
simulator, which must agree to the bit.
"""

import argparse
import sys
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from kohakutpu import api as ktpu
from kohakutpu import kernels

Array = NDArray[np.floating[Any]]

HIDDEN = (128, 64)
CLASSES = 10
EPOCHS = 40
BATCH = 32
TOLERANCE = 0.5  # points of accuracy
SLICE = 32  # images for the simulated hardware, which takes a second for some 100,000 cycles


def digits() -> tuple[Array, NDArray[np.int64], Array, NDArray[np.int64]]:
    """Return images to train with, their digits, and the same to test with; pixels in 0..1."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, labels = (images[order] / 16).astype(np.float32), labels[order]
    split = len(images) * 3 // 4
    return images[:split], labels[:split], images[split:], labels[split:]


def sigmoid(x: Array) -> Array:
    """Return ``1 / (1 + exp(-x))``."""
    return np.float32(1) / (np.float32(1) + np.exp(-x))


def softmax(x: Array) -> Array:
    """Return the softmax of each row."""
    power = np.exp(x - x.max(axis=-1, keepdims=True))
    return power / power.sum(axis=-1, keepdims=True)


class Network:
    """silu(x @ w0.T), then relu(... @ w1.T), then ... @ w2.T + bias; weights are [out, in]."""

    def __init__(self, inputs: int) -> None:
        rng = np.random.default_rng(1)
        sizes = (inputs, *HIDDEN, CLASSES)
        self.weights: list[Array] = [
            (rng.standard_normal((n, k)) * np.sqrt(2 / k)).astype(np.float32)
            for k, n in pairwise(sizes)
        ]
        self.bias: Array = np.zeros(CLASSES, np.float32)

    def on_host(self, x: Array) -> Array:
        """Return the probability of each class, in FP32."""
        w0, w1, w2 = self.weights
        first = x @ w0.T
        second = np.maximum(first * sigmoid(first) @ w1.T, 0)
        return softmax(second @ w2.T + self.bias)

    def on_machine(self, x: Array) -> Array:
        """Return the same, every layer on the machine."""
        w0, w1, w2 = (ktpu.tensor(w) for w in self.weights)
        first = kernels.linear_silu(ktpu.tensor(x), w0)
        second = kernels.linear_relu(first, w1)
        return kernels.linear_bias(second, w2, ktpu.tensor(self.bias)).softmax().numpy()

    def train(self, images: Array, labels: NDArray[np.int64]) -> None:
        """Minimise the cross entropy by Adam."""
        rng = np.random.default_rng(2)
        parameters = [*self.weights, self.bias]
        mean = [np.zeros_like(p) for p in parameters]
        square = [np.zeros_like(p) for p in parameters]
        step = 0
        for _ in range(EPOCHS):
            order = rng.permutation(len(images))
            for start in range(0, len(images), BATCH):
                chosen = order[start : start + BATCH]
                step += 1
                gradients = self.gradients(images[chosen], labels[chosen])
                for p, g, m, v in zip(parameters, gradients, mean, square, strict=True):
                    m += 0.1 * (g - m)
                    v += 0.001 * (g * g - v)
                    p -= 0.002 * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)

    def gradients(self, x: Array, labels: NDArray[np.int64]) -> list[Array]:
        """Return the gradient of the mean cross entropy by each weight and the bias."""
        w0, w1, w2 = self.weights
        first = x @ w0.T
        gate = sigmoid(first)
        hidden = first * gate
        second = np.maximum(hidden @ w1.T, 0)
        d_scores = softmax(second @ w2.T + self.bias)
        d_scores[np.arange(len(labels)), labels] -= 1
        d_scores /= np.float32(len(labels))
        d_second = (d_scores @ w2) * (second > 0)
        d_first = (d_second @ w1) * (gate + hidden * (np.float32(1) - gate))
        return [d_first.T @ x, d_second.T @ hidden, d_scores.T @ second, d_scores.sum(axis=0)]


def hardware_agrees(network: Network, images: Array) -> bool:
    """Classify on the machine in use and on simulated hardware of its kind; print and compare."""
    machine = ktpu.device().machine
    wanted = network.on_machine(images)
    with ktpu.device("rtl", machine=machine) as session:
        found = network.on_machine(images)
        cycles = session.stats().cycles
        session.close()
    same = found.tobytes() == wanted.tobytes()
    print(f"simulated hardware ({machine.name}): {len(images)} digits in {cycles:,} cycles, "
          f"{'every bit the same' if same else 'NOT the same bits'}")  # fmt: skip
    return same


def main() -> int:
    """Train, classify twice, report; return the exit status."""
    parser = argparse.ArgumentParser(description="Classify handwritten digits on the machine.")
    parser.add_argument("--hardware", action="store_true", help="also on simulated hardware")
    options = parser.parse_args()
    train_images, train_labels, images, labels = digits()
    network = Network(images.shape[1])
    network.train(train_images, train_labels)

    on_host = network.on_host(images)
    on_machine = network.on_machine(images)

    first = [ktpu.tensor(x) for x in (images, network.weights[0])]
    print(f"first layer, {len(images)} images:\n")
    print(kernels.linear_silu.plan(*first).pretty())
    print(f"\n{ktpu.stats()}\n")

    accuracy = {
        name: 100 * float(np.mean(probabilities.argmax(axis=-1) == labels))
        for name, probabilities in (("numpy FP32", on_host), ("KohakuTPU", on_machine))
    }
    for name, percent in accuracy.items():
        print(f"{name:12} {percent:6.2f} % of {len(labels)} digits right")
    apart = abs(accuracy["numpy FP32"] - accuracy["KohakuTPU"])
    disagree = int(np.sum(on_host.argmax(axis=-1) != on_machine.argmax(axis=-1)))
    print(f"{disagree} digits classified differently, probabilities differ by at most "
          f"{np.abs(on_host - on_machine).max():.3f}")  # fmt: skip
    if apart > TOLERANCE:
        print(f"the accuracies differ by {apart:.2f} points, more than {TOLERANCE}")
        return 1
    return 0 if not options.hardware or hardware_agrees(network, images[:SLICE]) else 1


if __name__ == "__main__":
    sys.exit(main())
