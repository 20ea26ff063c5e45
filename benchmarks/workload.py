"""What every contender trains, in numbers."""

CLIENTS, ROWS, CLASSES = 6_000, 10, 10  # registered clients, rows of each, classes
COHORT, STEPS, RATE = 100, 5, 0.1  # clients per round, full-batch SGD steps of each, learning rate
CLIP, NOISE = 0.1, 1.49  # where a contender is private: norm bound and noise multiplier
HOSPITALS, WIDTH, HELD, RECORD_STEPS = 5_010, 7_280, (24, 40), 40  # hospitals, features, records of each, steps
ROUNDS = 60  # of the recommended scheme
# A sum of the recommended scheme's: a fifth of its numbers travel in a round, in integers of 12 bits.
SECURE = {"clients": 300, "size": 1_089, "bits": 12, "lost": 0, "dropout": 0.0, "corrupt": 0.1, "servers": 1}
SHAPES = {"cnn": (1, 28, 28), "linear": (600,)}


def cnn_flops() -> float:
    """Arithmetic of one round on the CNN, in floating-point operations; a multiply-add counts two.

    Forward, gradient of the weights and gradient of the inputs cost the same; conv1 needs no gradient of its
    inputs. Per image: conv1 28*28*32*25, conv2 14*14*64*32*25, dense 3136*512 and 512*10 multiply-adds.
    """
    conv1, rest = 28 * 28 * 32 * 25, 14 * 14 * 64 * 32 * 25 + 3136 * 512 + 512 * 10
    return 2.0 * (2 * conv1 + 3 * rest) * ROWS * STEPS * COHORT
