"""FedJAX: federated averaging on its `for_each_client`, backend "jit", or "pmap" over one XLA host device per core.

FedJAX has no differential privacy: for `private` the update is clipped in `client_final`, and noise is added to the
sum at the server by hand. FedJAX 0.0.17 is older than the fastest JAX: three names that JAX has dropped are put back.
"""

import os

DEVICES = os.environ.get("BENCH_DEVICES", "1")
LIMIT = os.environ.get("XLA_FLAGS", "")  # of the instructions that it may use
os.environ["XLA_FLAGS"] = f"{LIMIT} --xla_force_host_platform_device_count={DEVICES}".strip()

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def sharded(shards, devices):
    """One of the trees on each device, along a new first axis."""
    place = NamedSharding(Mesh(np.array(devices), ("clients",)), PartitionSpec("clients"))
    return jax.tree_util.tree_map(lambda *leaves: jax.device_put(np.stack(leaves), place), *shards)


jax.tree_map = jax.tree_util.tree_map
jax.device_put_sharded = sharded
jax.device_put_replicated = lambda tree, devices: sharded([tree] * len(devices), devices)

import fedjax
import talk
from workload import CLIENTS, CLIP, COHORT, NOISE, RATE, ROWS, STEPS

Params = dict[str, jax.Array]


def parameters(workload: str) -> Params:
    """Glorot weights and zero biases."""
    shapes = {"dense": (600, 10)}
    if workload == "cnn":
        shapes = {"conv1": (5, 5, 1, 32), "conv2": (5, 5, 32, 64), "fc1": (3136, 512), "fc2": (512, 10)}
    draw = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(jax.random.PRNGKey(0), len(shapes))
    weights = {name: draw(key, shape) for key, (name, shape) in zip(keys, shapes.items(), strict=True)}
    return weights | {f"{name}_bias": jnp.zeros(shape[-1]) for name, shape in shapes.items()}


def logits(p: Params, x: jax.Array) -> jax.Array:
    """The paper's CNN on rows (height, width, channels), or softmax regression."""
    if "dense" in p:
        return x @ p["dense"] + p["dense_bias"]
    for name in ("conv1", "conv2"):
        x = jax.lax.conv_general_dilated(x, p[name], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jax.nn.relu(x + p[f"{name}_bias"])
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(x.reshape(len(x), -1) @ p["fc1"] + p["fc1_bias"])
    return x @ p["fc2"] + p["fc2_bias"]


def loss(p: Params, batch: dict[str, jax.Array]) -> jax.Array:
    """Mean cross-entropy."""
    found = jax.nn.log_softmax(logits(p, batch["x"]))
    return -jnp.mean(jnp.take_along_axis(found, batch["y"][:, None], axis=1))


def averaging(hparams: fedjax.ShuffleRepeatBatchHParams, noisy: bool) -> fedjax.FederatedAlgorithm:
    """Federated averaging; `noisy` clips each update and adds noise to the sum."""

    def client_init(shared: Params, rng: jax.Array) -> Params:
        return shared

    def client_step(state: Params, batch: dict[str, jax.Array]) -> Params:
        return jax.tree_util.tree_map(lambda w, g: w - RATE * g, state, jax.grad(loss)(state, batch))

    def client_final(shared: Params, state: Params) -> Params:
        delta = jax.tree_util.tree_map(jnp.subtract, state, shared)
        return fedjax.tree_util.tree_clip_by_global_norm(delta, CLIP) if noisy else delta

    train = fedjax.for_each_client(client_init, client_step, client_final)
    # On "pmap" an update keeps the devices' axis, of length one.
    add = jax.jit(lambda a, b: jax.tree_util.tree_map(lambda u, v: u + v.reshape(u.shape), a, b), donate_argnums=0)

    @jax.jit
    def move(p: Params, total: Params, key: jax.Array) -> Params:
        if noisy:
            keys = dict(zip(p, jax.random.split(key, len(p)), strict=True))
            total = {name: total[name] + CLIP * NOISE * jax.random.normal(keys[name], p[name].shape) for name in p}
        return {name: p[name] + total[name] / COHORT for name in p}

    def apply(state, clients):
        params, key = state
        key, mine = jax.random.split(key)
        batches = [(name, rows.shuffle_repeat_batch(hparams), rng) for name, rows, rng in clients]
        total = jax.tree_util.tree_map(jnp.zeros_like, params)
        for _, delta in train(params, batches):
            total = add(total, delta)
        return (move(params, total, mine), key), {}

    return fedjax.FederatedAlgorithm(lambda params: (params, jax.random.PRNGKey(1)), apply)


def start(workload: str, noisy: bool, backend: str) -> talk.Measure:
    """One round per call."""
    fedjax.set_for_each_client_backend(backend)
    x, y = talk.data(workload)
    x = x.transpose(0, 2, 3, 1) if workload == "cnn" else x
    rows = {k: slice(k * ROWS, (k + 1) * ROWS) for k in range(CLIENTS)}
    data = fedjax.InMemoryFederatedData({b"%04d" % k: {"x": x[part], "y": y[part]} for k, part in rows.items()})
    sampler = fedjax.client_samplers.UniformGetClientSampler(data, COHORT, seed=0)
    algorithm = averaging(fedjax.ShuffleRepeatBatchHParams(batch_size=ROWS, num_epochs=STEPS), noisy)
    state = algorithm.init(parameters(workload))

    def step() -> None:
        nonlocal state
        state, _ = algorithm.apply(state, sampler.sample())
        jax.block_until_ready(state)

    return talk.stepwise(step)


if __name__ == "__main__":
    options = talk.OPTIONS
    measure = start(options["workload"], options.get("private", False), options.get("backend", "jit"))
    # Two rounds to warm up: on "pmap" the second is compiled anew, for weights that lie on all devices.
    talk.serve(measure, ["fedjax", "jax", "jaxlib"], warm=2)
