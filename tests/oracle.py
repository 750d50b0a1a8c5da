"""Algorithm 1 in plain loops and NumPy, float64, sharing no code with the package.

It is handed what the engine drew (who took part, which rows made up every batch) and computes, literally and
slowly, what the paper says must come out. Models are lists of (W, b) layers with relu between them: one layer is
logistic regression, three are the 2NN. W has one row for each output.
"""

import numpy as np


def forward(layers, x):
    """Inputs of every layer, and the logits."""
    inputs = []
    h = x.reshape(len(x), -1)
    for i, (w, b) in enumerate(layers):
        inputs.append(h)
        h = h @ w.T + b
        if i < len(layers) - 1:
            h = np.maximum(h, 0.0)
    return inputs, h


def gradient(layers, x, y):
    """Of the mean cross-entropy, by the chain rule."""
    inputs, logits = forward(layers, x)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1.0
    back = p / len(y)
    gradients = []
    for i in reversed(range(len(layers))):
        gradients.append((back.T @ inputs[i], back.sum(axis=0)))
        if i > 0:
            back = (back @ layers[i][0]) * (inputs[i] > 0)
    return gradients[::-1]


def local_run(layers, x, y, batches, eta_l):
    """x_{t,K} - x_t for one worker, from the rows of its K batches."""
    mine = [(w.copy(), b.copy()) for w, b in layers]
    for rows in batches:
        grads = gradient(mine, x[rows], y[rows])
        mine = [(w - eta_l * gw, b - eta_l * gb) for (w, b), (gw, gb) in zip(mine, grads, strict=True)]
    return [(w - w0, b - b0) for (w, b), (w0, b0) in zip(mine, layers, strict=True)]


def round_of(layers, x, y, cohort, eta_l, eta, weights=None):
    """One round: `cohort` is a list with one list of batches (row numbers) for every local run."""
    deltas = [local_run(layers, x, y, batches, eta_l) for batches in cohort]
    weights = [1.0] * len(deltas) if weights is None else weights
    total = sum(weights)
    moved = []
    for i, (w, b) in enumerate(layers):
        dw = sum(weight * delta[i][0] for weight, delta in zip(weights, deltas, strict=True)) / total
        db = sum(weight * delta[i][1] for weight, delta in zip(weights, deltas, strict=True)) / total
        moved.append((w + eta * dw, b + eta * db))
    return moved


def run(layers, x, y, cohorts, eta_l, eta, weights=None):
    """T rounds; `cohorts[t]` is what round t drew."""
    layers = [(np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in layers]
    x = x.astype(np.float64)
    for t, cohort in enumerate(cohorts):
        layers = round_of(layers, x, y, cohort, eta_l, eta, None if weights is None else weights[t])
    return layers
