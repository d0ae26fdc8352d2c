"""Training of the networks of `DeepFairClustering`: the only module that imports PyTorch.

All chance comes from a generator of the fit, so that nothing depends on PyTorch's global state.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import islice, pairwise
from math import ceil, exp
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn
from torch.nn import functional as F

from fairanchor._utils._shared_state import SharedContext

#: Weights and biases of the layers, and the head: weights and biases, or centres and None.
Layers = list[tuple[np.ndarray, np.ndarray]]
Head = tuple[np.ndarray, np.ndarray | None]

# Passes over small tables are repeated until an epoch has as many batches.
LEAST_BATCHES = 20
# DFDC: the published weights of the regularised mutual information (IMSAT), and its radius in
# distances to the tenth neighbour. Distances are those of a sample of rows.
BALANCE_WEIGHT, SMOOTHNESS_WEIGHT = 4.0, 10.0
RADIUS, N_NEIGHBORS, RADIUS_ROWS = 0.25, 10, 10_000
# DFC: its loss sums over batches of 512 rows of each group; ours are means of any number of rows.
PUBLISHED_BATCH = 512
DECAY = 5e-4


@contextmanager
def _limit_torch() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


#: The last bits of a product depend on how many threads share it.
one_torch_thread = SharedContext(_limit_torch)


class Training:
    """Rows on which networks are trained, and the chance of a fit.

    Every group is present; rows are drawn in proportion to their weights; ``assign`` gives fair
    labels of all rows from their log memberships.
    """

    def __init__(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray | None,
        assign: Callable[[np.ndarray], np.ndarray],
        seed: int,
    ) -> None:
        self.X = torch.from_numpy(X.astype(np.float32))
        self.groups = [torch.from_numpy(np.flatnonzero(codes == r)) for r in range(codes.max() + 1)]
        self.weights = None if weights is None else torch.from_numpy(weights)
        self.assign, self.generator = assign, torch.Generator().manual_seed(seed)

    def n_batches(self, size: int) -> int:
        """Batches of an epoch."""
        return max(ceil(len(self.X) / size), LEAST_BATCHES)

    def batches(self, size: int, n_batches: int, rows: Tensor | None = None) -> tuple[Tensor, ...]:
        """Numbers of as many rows as are wanted, pass after pass, each in an order of its own."""
        n_rows = len(self.X) if rows is None else len(rows)
        size = min(size, n_rows)
        passes = [self._order(n_rows, rows) for _ in range(ceil(size * n_batches / n_rows))]
        return torch.cat(passes)[: size * n_batches].split(size)

    def _order(self, n_rows: int, rows: Tensor | None) -> Tensor:
        if self.weights is None:
            order = torch.randperm(n_rows, generator=self.generator)
        else:
            weights = self.weights if rows is None else self.weights[rows]
            order = torch.multinomial(weights, n_rows, replacement=True, generator=self.generator)
        return order if rows is None else rows[order]


# Networks.


def layer(n_in: int, n_out: int, generator: torch.Generator) -> nn.Linear:
    """An affine layer; the usual constructor would take its numbers from the global generator."""
    made = nn.utils.skip_init(nn.Linear, n_in, n_out, device="cpu", dtype=torch.float32)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu", generator=generator)
    nn.init.zeros_(made.bias)
    return made


def perceptron(sizes: list[int], generator: torch.Generator) -> nn.Sequential:
    """Affine layers with rectifiers between them."""
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        parts += [layer(n_in, n_out, generator), nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def arrays_of(network: nn.Sequential) -> Layers:
    """Weights and biases of the affine layers, in double precision."""
    return [
        (_array(part.weight.T), _array(part.bias))
        for part in network
        if isinstance(part, nn.Linear)
    ]


def _array(tensor: Tensor) -> np.ndarray:
    return np.ascontiguousarray(tensor.detach().numpy(), dtype=np.float64)


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step against the gradient of the loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def divergences(log_p: Tensor, log_q: Tensor) -> Tensor:
    """KL(p || q) of each row."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


# DFDC.


def train_dfdc(model: Any, training: Training, epochs: Iterator[int]) -> tuple[Layers, Head]:
    """Maximise mutual information; in the second half of the epochs, follow fair labels as well."""
    sizes = [training.X.shape[1], *model.hidden_layer_sizes, model.code_size]
    encoder = perceptron(sizes, training.generator)
    head = layer(model.code_size, model.n_clusters, training.generator)
    log_memberships = nn.Sequential(encoder, head, nn.LogSoftmax(dim=1))
    weight = 10.0 if model.fairness_weight is None else model.fairness_weight
    radius = neighbour_radius(training)
    optimizer = torch.optim.Adam(log_memberships.parameters(), model.learning_rate)
    labels = None
    for epoch in epochs:
        if epoch >= model.max_iter // 2:
            with torch.no_grad():
                fair = training.assign(log_memberships(training.X).numpy())
            labels = torch.from_numpy(fair.astype(np.int64))
        for batch in training.batches(model.batch_size, training.n_batches(model.batch_size)):
            x = training.X[batch]
            log_y = log_memberships(x)
            loss = information_loss(log_y)
            loss += SMOOTHNESS_WEIGHT * smoothness_loss(
                log_memberships, x, log_y.detach(), radius, training.generator
            )
            if labels is not None:
                loss += weight * F.nll_loss(log_y, labels[batch])
            step(optimizer, loss)
    return arrays_of(encoder), (_array(head.weight.T), _array(head.bias))


def neighbour_radius(training: Training) -> float:
    """How far memberships should be constant: a part of the median distance to a neighbour."""
    order = torch.randperm(len(training.X), generator=training.generator)[:RADIUS_ROWS]
    sample = training.X[order].numpy()
    n_neighbors = min(N_NEIGHBORS, len(sample) - 1)
    if n_neighbors == 0:
        return 0.0
    distances, _ = NearestNeighbors(n_neighbors=n_neighbors).fit(sample).kneighbors()
    return RADIUS * float(np.median(distances[:, -1]))


def information_loss(log_y: Tensor) -> Tensor:
    """Entropy of the rows' memberships less that of their mean: clear labels of similar sizes."""
    mean = log_y.exp().mean(dim=0)
    of_rows = -(log_y.exp() * log_y).sum(dim=1).mean()
    return of_rows + BALANCE_WEIGHT * torch.special.xlogy(mean, mean).sum()


def smoothness_loss(
    log_memberships: nn.Module,
    x: Tensor,
    log_y: Tensor,
    radius: float,
    generator: torch.Generator,
) -> Tensor:
    """Virtual adversarial training: how memberships change in the direction that changes them most.

    The direction is that of the gradient at a random point at the same distance.
    """
    chance = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    moved = (radius * F.normalize(chance)).requires_grad_()
    change = divergences(log_y, log_memberships(x + moved)).sum()
    (gradient,) = torch.autograd.grad(change, moved)
    return divergences(log_y, log_memberships(x + radius * F.normalize(gradient))).mean()


# DFC.


class StudentMemberships(nn.Module):
    """Log memberships by distance from centres in the space of codes (Student's t)."""

    def __init__(self, encoder: nn.Module, centers: np.ndarray) -> None:
        super().__init__()
        self.encoder = encoder
        self.centers = nn.Parameter(torch.from_numpy(centers.astype(np.float32)))

    @classmethod
    def start(
        cls, model: Any, training: Training, encoder: nn.Module, rows: Tensor | None = None
    ) -> "StudentMemberships":
        """Centres by k-means on the codes of all rows, or of some."""
        rows = torch.arange(len(training.X)) if rows is None else rows
        with torch.no_grad():
            codes = encoder(training.X[rows]).double().numpy()
        weights = None if training.weights is None else training.weights[rows].numpy()
        if len(rows) <= model.n_clusters:  # all of them, some twice
            return cls(encoder, np.resize(codes, (model.n_clusters, codes.shape[1])))
        seed = training.generator.initial_seed()
        kmeans = KMeans(model.n_clusters, n_init=10, random_state=seed)
        kmeans.fit(codes, sample_weight=weights)
        return cls(encoder, kmeans.cluster_centers_)

    def forward(self, x: Tensor) -> Tensor:
        difference = self.encoder(x)[:, None, :] - self.centers
        return F.log_softmax(-torch.log1p(difference.square().sum(dim=2)), dim=1)


def train_dfc(model: Any, training: Training, epochs: Iterator[int]) -> tuple[Layers, Head]:
    """Autoencoder; a model of each group alone; all groups against a critic. A third each."""
    # The last stage has one epoch at least.
    n_first = min(ceil(model.max_iter / 3), (model.max_iter - 1) // 2)
    encoder = pretrained_encoder(model, training, islice(epochs, n_first))
    alone = models_of_groups(model, training, encoder, islice(epochs, n_first))
    memberships = StudentMemberships.start(model, training, encoder)

    n_groups, n_clusters = len(training.groups), model.n_clusters
    critic = perceptron([n_clusters, 32, 32, n_groups], training.generator)
    optimizer = torch.optim.Adam(
        [
            {"params": memberships.parameters()},
            {"params": critic.parameters(), "lr": 10 * model.learning_rate},
        ],
        model.learning_rate,
        weight_decay=DECAY,
    )
    per_group = ceil(model.batch_size / n_groups)
    n_batches = training.n_batches(model.batch_size)
    n_steps = (model.max_iter - 2 * n_first) * n_batches
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: (1 + 10 * done / n_steps) ** -0.75
    )
    weight = 1.0 if model.fairness_weight is None else model.fairness_weight
    n_done = 0
    for _ in epochs:
        batches = [training.batches(per_group, n_batches, rows) for rows in training.groups]
        for of_groups in zip(*batches, strict=True):
            log_y = [memberships(training.X[batch]) for batch in of_groups]
            clustering = torch.stack([sharpening_loss(part) for part in log_y]).mean()
            structure = torch.stack(
                [
                    structure_loss(part, teacher(training.X[batch]))
                    for part, teacher, batch in zip(log_y, alone, of_groups, strict=True)
                ]
            ).mean()
            strength = 2 / (1 + exp(-10 * n_done / n_steps)) - 1
            fairness = critic_loss(critic, log_y, strength)
            loss = PUBLISHED_BATCH * clustering + PUBLISHED_BATCH**2 * structure
            step(optimizer, loss + weight * fairness)
            schedule.step()
            n_done += 1
    return arrays_of(encoder), (_array(memberships.centers), None)


def pretrained_encoder(model: Any, training: Training, epochs: Iterator[int]) -> nn.Sequential:
    """Of an autoencoder of all rows."""
    sizes = [training.X.shape[1], *model.hidden_layer_sizes, model.code_size]
    encoder = perceptron(sizes, training.generator)
    decoder = perceptron(sizes[::-1], training.generator)
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, model.learning_rate)
    for _ in epochs:
        for batch in training.batches(model.batch_size, training.n_batches(model.batch_size)):
            x = training.X[batch]
            step(optimizer, F.mse_loss(decoder(encoder(x)), x))
    return encoder


def models_of_groups(
    model: Any, training: Training, encoder: nn.Module, epochs: Iterator[int]
) -> list[StudentMemberships]:
    """Deep embedded clustering (DEC) of each group alone, from the same encoder."""
    alone = [
        StudentMemberships.start(model, training, deepcopy(encoder), rows)
        for rows in training.groups
    ]
    optimizers = [torch.optim.Adam(student.parameters(), model.learning_rate) for student in alone]
    n_batches = ceil(training.n_batches(model.batch_size) / len(alone))
    for _ in epochs:
        for student, optimizer, rows in zip(alone, optimizers, training.groups, strict=True):
            for batch in training.batches(model.batch_size, n_batches, rows):
                step(optimizer, sharpening_loss(student(training.X[batch])))
    for student in alone:
        student.requires_grad_(False)
    return alone


def sharpening_loss(log_p: Tensor) -> Tensor:
    """KL(q || p) for q proportional to p² over the clusters' sums, of rows of one group.

    Within a group, it spreads the group over all clusters.
    """
    log_q = 2 * log_p.detach() - torch.logsumexp(log_p.detach(), dim=0)
    return divergences(F.log_softmax(log_q, dim=1), log_p).mean()


def structure_loss(log_p: Tensor, log_alone: Tensor) -> Tensor:
    """Mean squared difference of the similarities of rows under two models."""
    p, alone = log_p.exp(), log_alone.exp()
    return F.mse_loss(p @ p.T, alone @ alone.T)


def critic_loss(critic: nn.Module, log_p: list[Tensor], strength: float) -> Tensor:
    """Cross entropy of the critic's guesses of the groups from memberships.

    The gradient with respect to the memberships is reversed: the network learns to mislead.
    """
    p = torch.cat(log_p).exp()
    p.register_hook(lambda gradient: -strength * gradient)
    codes = torch.cat([torch.full((len(part),), r) for r, part in enumerate(log_p)])
    return F.cross_entropy(critic(p), codes)


METHODS = {"dfdc": train_dfdc, "dfc": train_dfc}


def train(model: Any, training: Training, epochs: Iterator[int]) -> tuple[Layers, Head]:
    """Layers and head of the network of the method that the model names."""
    with one_torch_thread():
        return METHODS[model.method](model, training, epochs)
