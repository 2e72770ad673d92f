"""Random strings for graphs."""

from model import np

LETTERS = ["a", "b", "Z", "0", "7", " ", ",", "-", "\u00e9", "\u6f22", "\U0001f600"]
COMMON = ["", "a", "b", "ab", "one", "two", "3.5", "-12"]


def word(random):
    """One string: a common one, so that some are equal, or random letters; a few are not UTF-8."""
    if random.random() < 0.6:
        return random.choice(COMMON).encode()
    text = "".join(random.choice(LETTERS) for _ in range(random.randint(0, 6))).encode()
    return text + b"\xff\x00" if random.random() < 0.05 else text


def words(random, dims):
    """An array of strings."""
    array = np.empty(dims, object)
    for i in range(array.size):
        array.reshape(-1)[i] = word(random)
    return array
