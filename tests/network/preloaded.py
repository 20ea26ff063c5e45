"""What every party needs, imported once in the process that they are forked from."""

import nvflare.fuel.f3.cellnet.core_cell  # noqa: F401
import torch

import hush.experiment.client
import hush.experiment.server  # noqa: F401
import hush.models.features.front  # noqa: F401

torch.set_num_threads(1)
