"""pfl: its simulated backend and FederatedAveraging, in one process or in two that `torchrun` starts.

With two processes, rank 0 talks with the bench and tells the other what to run. `local_num_steps` would stop after
one pass over the data, so the five steps are five epochs of one full batch.
"""

import os
import time

import numpy as np
import talk
import torch
from nets import build
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from torch.nn.functional import cross_entropy
from workload import CLIENTS, CLIP, COHORT, NOISE, RATE, ROWS, STEPS


class Clock(TrainingProcessCallback):
    """The moment at which each round ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
        """Note it; never stop."""
        self.ends.append(time.perf_counter())
        return False, Metrics()


def start(workload: str, private: bool) -> talk.Measure:
    """Rounds of one endless training."""
    torch.manual_seed(0)
    np.random.seed(0)
    x, y = (torch.from_numpy(values) for values in talk.data(workload))
    users = {k: [x[k * ROWS : (k + 1) * ROWS], y[k * ROWS : (k + 1) * ROWS]] for k in range(CLIENTS)}
    sampler = get_user_sampler("minimize_reuse", list(users))
    data = FederatedDataset(lambda user: Dataset(raw_data=users[user], user_id=str(user)), sampler)
    net = build(workload)
    net.loss = lambda inputs, targets: cross_entropy(net(inputs), targets)
    net.metrics = lambda inputs, targets: {}
    server = torch.optim.SGD(net.parameters(), 1.0)
    model = PyTorchModel(model=net, local_optimizer_create=torch.optim.SGD, central_optimizer=server)
    noise = [CentrallyAppliedPrivacyMechanism(GaussianMechanism(CLIP, NOISE))] if private else []
    backend = SimulatedBackend(training_data=data, val_data=data, postprocessors=noise)
    training = NNTrainHyperParams(local_batch_size=None, local_num_epochs=STEPS, local_learning_rate=RATE)
    algorithm, done = FederatedAveraging(), 0

    def measure(rounds: int) -> talk.Answer:
        nonlocal done
        done += rounds
        params = NNAlgorithmParams(
            central_num_iterations=done, evaluation_frequency=10**9, train_cohort_size=COHORT, val_cohort_size=None
        )
        clock = Clock()
        start, began = talk.mark(), time.perf_counter()
        algorithm.run(params, backend, model, training, callbacks=[clock], send_metrics_to_platform=False)
        return talk.answer(np.diff([began, *clock.ends]).tolist(), start, talk.mark())

    return measure


def main() -> None:
    """Serve, or follow the process that does."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    measure = start(talk.OPTIONS["workload"], talk.OPTIONS.get("private", False))
    together = pytorch_ops.distributed.world_size > 1

    def lead(rounds: int) -> talk.Answer:
        if together:
            torch.distributed.broadcast_object_list([rounds], src=0)
        return measure(rounds)

    if pytorch_ops.distributed.global_rank == 0:
        talk.serve(lead, ["torch", "pfl"])
        if together:
            torch.distributed.broadcast_object_list([0], src=0)
    else:
        order = [1]
        while order[0]:
            torch.distributed.broadcast_object_list(order, src=0)
            if order[0]:
                measure(order[0])
    if together:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
