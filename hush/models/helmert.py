"""The linear head of k classes whose weights have k - 1 rows: what a softmax cannot see is left out.

A softmax of k numbers does not change when the same is added to all of them, so the gradients of its k rows of weights
sum to zero over the classes: one row in k need not travel.
"""

import torch
from torch import Tensor, nn

from hush.errors import Mistake


def helmert(classes: int) -> Tensor:
    """The Helmert matrix H (classes, classes - 1): orthonormal columns, each of which sums to zero, in float64.

    Column j (from 1) is (1, ..., 1, -j, 0, ..., 0) / sqrt(j (j + 1)), with j ones.
    """
    if classes < 2:
        raise Mistake(f"classes={classes} must be at least 2: a head separates classes")
    j = torch.arange(1, classes, dtype=torch.float64)
    ones = torch.ones(classes, classes - 1, dtype=torch.float64)
    return (ones.triu() - torch.diag_embed(j, offset=-1)[:, :-1]) / (j * (j + 1)).sqrt()


def head(width: int, classes: int) -> nn.Sequential:
    """Logits H W x of rows x of `width` numbers, without a bias: (classes - 1) width weights W, which start at zero.

    With V = H W, one row for each class, the gradient of W is H' times that of V, and since the latter sums to zero
    over the classes, V moves as it would without H: W + a H' G is V + a G. H does not train and does not travel.
    """
    if width < 1:
        raise Mistake(f"width={width} must be at least 1: the numbers of a row of features")
    spread = helmert(classes).float()
    rows, out = nn.Linear(width, classes - 1, bias=False), nn.Linear(classes - 1, classes, bias=False)
    with torch.no_grad():
        rows.weight.zero_()
        out.weight.copy_(spread)
    out.weight.requires_grad_(False)
    return nn.Sequential(rows, out)
