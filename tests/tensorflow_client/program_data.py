"""Data that programs of `program_list.py` read: small, made up, and the same in each run.

Each function writes into the folder that it runs in. `MNIST`, in the environment, is the folder of its four files.
"""

import gzip
import os
import random
import shutil
import wave

import numpy as np

WORDS = (
    "the a small large red old bird tree river stone sees finds likes has near over and with in of".split()
)


def folder_of(path):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return path


def write(path, text):
    with open(folder_of(path), "w") as file:
        file.write(text)


def sentences(count, seed=0, longest=12):
    draw = random.Random(seed)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randint(3, longest))) for _ in range(count)]


def text(path, count=2000, seed=0):
    """A file with a sentence a line."""
    return lambda: write(path, "\n".join(sentences(count, seed)) + "\n")


def mnist(folder, packed=False):
    """MNIST's files, as they are or unpacked."""

    def make():
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(os.environ["MNIST"]):
            path = os.path.join(os.environ["MNIST"], name)
            if packed:
                shutil.copy(path, folder)
            elif name.endswith(".gz"):
                with gzip.open(path) as file, open(os.path.join(folder, name[:-3]), "wb") as out:
                    shutil.copyfileobj(file, out)

    return make


def images(folder, count, height, width, kind="png"):
    """Images of soft blobs in colours."""

    def make():
        import PIL.Image

        os.makedirs(folder, exist_ok=True)
        draw = np.random.RandomState(5)
        y, x = np.mgrid[0:height, 0:width]
        for n in range(count):
            at = draw.uniform(0, 1, (3, 2)) * (height, width)
            spread = draw.uniform(0.1, 0.4, 3) * height
            planes = [np.exp(-((y - a) ** 2 + (x - b) ** 2) / s**2) for (a, b), s in zip(at, spread)]
            image = (np.stack(planes, -1) * 255).astype(np.uint8)
            PIL.Image.fromarray(image).save(os.path.join(folder, f"{n}.{kind}"))

    return make


def questions():
    """Stories with questions on who is where, in the form of the bAbI tasks."""
    draw = random.Random(3)
    names, places = "Ann Bob Cid Dora".split(), "garden kitchen office hall".split()
    for part in ("train", "test"):
        lines = []
        for _ in range(100):
            where = {}
            for n in range(1, 13):
                if n % 3:
                    who = draw.choice(names)
                    where[who] = draw.choice(places)
                    lines.append(f"{n} {who} went to the {where[who]}.")
                else:
                    who = draw.choice(sorted(where))
                    lines.append(f"{n} Where is {who}? \t{where[who]}\t{n - 1}")
        name = f"data/tasks_1-20_v1-2/en/qa1_single-supporting-fact_{part}.txt"
        write(name, "\n".join(lines) + "\n")


def words_of_text():
    for n, part in enumerate(("train", "valid", "test")):
        write(f"data/ptb.{part}.txt", "\n".join(sentences(1500 // (n * 4 + 1), n)) + "\n")


def speech():
    """A recording and its transcript, with the sizes that the program looks for."""
    samples = (93638 - 44) // 2
    t = np.arange(samples) / 16000
    sound = np.sin(2 * np.pi * (200 + 300 * np.sin(3 * t)) * t) * 8000 + np.random.RandomState(1).normal(
        0, 300, samples
    )
    with wave.open("LDC93S1.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(sound.astype("<i2").tobytes())
    write("LDC93S1.txt", "0 46797 the small bird sees a river near the old tree".ljust(61) + "\n")
    features = """
        import numpy as np

        def mfcc(audio, samplerate):
            frames = audio[: len(audio) // 320 * 320].reshape(-1, 320).astype(float)
            return np.log1p(np.abs(np.fft.rfft(frames))[:, 1:14])
    """
    write("python_speech_features.py", features.replace("\n        ", "\n"))


def clicks():
    """A program that fits the model to made-up categories, and the optimizer that it imports and does not use."""
    write("yellowfin.py", "YFOptimizer = None\n")
    program = """
        import numpy as np
        from DeepFM import DeepFM

        draw = np.random.RandomState(0)
        rows, fields, each = 2048, 8, 20
        index = draw.randint(0, each, (rows, fields)) + np.arange(fields) * each
        value = np.ones((rows, fields))
        label = (np.sin(index).sum(1) > 0).astype(int)
        model = DeepFM(fields * each, fields, batch_size=64, verbose=1, batch_norm=1, deep_layers=[32, 32],
                       dropout_fm=[0.9, 0.9], dropout_deep=[0.9, 0.9, 0.9], l2_reg=0.01)
        model.fit(index.tolist(), value.tolist(), label.tolist())
    """
    write("fit.py", program.replace("\n        ", "\n"))


def reviews():
    made = """
        import numpy as np

        def load_data(num_words, index_from):
            draw = np.random.RandomState(0)

            def part(count):
                x = np.empty(count, object)
                x[:] = [draw.randint(1, 200, draw.randint(20, 250)).tolist() for _ in range(count)]
                return x, np.array([np.mean(row) > 100 for row in x]).astype(int)

            return part(256), part(64)
    """
    write("made_imdb.py", made.replace("\n        ", "\n"))


# Pendulum, as the classic control problem has it, for programs that import gym.
GYM = """
import types
import numpy as np


class Box:
    def __init__(self, low, high):
        self.low, self.high, self.shape = np.asarray(low), np.asarray(high), np.asarray(low).shape


class Pendulum:
    observation_space, action_space = Box([-1, -1, -8], [1, 1, 8]), Box([-2.0], [2.0])
    unwrapped = property(lambda self: self)

    def seed(self, seed):
        self.draw = np.random.RandomState(seed)

    draw = np.random.RandomState(0)

    def render(self):
        pass

    def reset(self):
        self.angle, self.speed = self.draw.uniform([-np.pi, -1], [np.pi, 1])
        return self.seen()

    def seen(self):
        return np.array([np.cos(self.angle), np.sin(self.angle), self.speed])

    def step(self, action):
        force = float(np.clip(np.ravel(action)[0], -2, 2))
        angle = (self.angle + np.pi) % (2 * np.pi) - np.pi
        cost = angle**2 + 0.1 * self.speed**2 + 0.001 * force**2
        self.speed = np.clip(self.speed + (15 * np.sin(self.angle) + 3 * force) * 0.05, -8, 8)
        self.angle += self.speed * 0.05
        return self.seen(), -cost, False, {}


def make(name):
    return Pendulum()
"""


def pendulum(folder):
    return lambda: write(os.path.join(folder, "gym.py"), GYM)


def records_of_images():
    """Two files of records with JPEG images."""
    import tensorflow as tf

    for n, name in enumerate("ab"):
        images(f"images_{name}", 8, 64, 64 + n, "jpg")()
        with tf.io.TFRecordWriter(f"{name}.tfrecords") as out:
            for file in sorted(os.listdir(f"images_{name}")):
                with open(os.path.join(f"images_{name}", file), "rb") as image:
                    values = {"image/file_name": file.encode(), "image/encoded_image": image.read()}
                kinds = {
                    k: tf.train.Feature(bytes_list=tf.train.BytesList(value=[v])) for k, v in values.items()
                }
                out.write(tf.train.Example(features=tf.train.Features(feature=kinds)).SerializeToString())


def tags():
    """Vocabularies and word vectors of the data that comes with the program, by its own script."""
    import subprocess
    import sys

    with open("data/test.txt") as file:
        words = sorted({line.split()[0].lower() for line in file if line.strip()})
    draw = np.random.RandomState(0)
    lines = [" ".join([word, *(f"{v:.3f}" for v in draw.normal(0, 0.3, 300))]) for word in words]
    write("data/glove.6B/glove.6B.300d.txt", "\n".join(lines) + "\n")
    # The order of words in its sets.
    fixed = dict(os.environ, PYTHONHASHSEED="0")
    subprocess.run([sys.executable, "build_data.py"], check=True, env=fixed, stdout=subprocess.DEVNULL)


def translations():
    """Sentences, and the same with their words in another order, with the vocabulary of both."""
    one = sentences(640, 1, 8)
    write("corpora/train.tags.de-en.de", "\n".join(one) + "\n")
    write("corpora/train.tags.de-en.en", "\n".join(" ".join(reversed(s.split())) for s in one) + "\n")
    words = ["<PAD>", "<UNK>", "<S>", "</S>"] + WORDS
    for part in ("de", "en"):
        write(f"preprocessed/{part}.vocab.tsv", "".join(f"{w}\t1000\n" for w in words))


def pairs_of_sentences():
    for part, count in (("train", 400), ("dev", 20), ("test", 20)):
        one = sentences(count, count, 10)
        write(f"text/{part}.a", "\n".join(one) + "\n")
        write(f"text/{part}.b", "\n".join(" ".join(reversed(s.split())) for s in one) + "\n")
    for part in "ab":
        write(f"text/vocab.{part}", "\n".join(["<unk>", "<s>", "</s>"] + WORDS) + "\n")


def spectrograms():
    """Spectrograms with their texts, and stand-ins for libraries of sound and language that training does not use."""
    draw = np.random.RandomState(2)
    lines = []
    for n, sentence in enumerate(sentences(64, 4, 5)):
        length = draw.randint(20, 40)
        os.makedirs("base/training", exist_ok=True)
        for kind, width in (("spec", 1025), ("mel", 80)):
            np.save(f"base/training/{kind}-{n}.npy", draw.uniform(0, 1, (length, width)).astype(np.float32))
        lines.append(f"spec-{n}.npy|mel-{n}.npy|{length}|{sentence}")
    write("base/training/train.txt", "\n".join(lines) + "\n")
    write("librosa/__init__.py", "")
    write("librosa/filters.py", "")
    write("unidecode.py", "unidecode = str\n")
    write("inflect.py", "class engine:\n    pass\n")


def words_in_a_zip():
    import zipfile

    with zipfile.ZipFile("text8.zip", "w") as file:
        rare = np.random.RandomState(0).zipf(1.3, 50000) % 1000
        file.writestr("text8", " ".join(f"word{n}" for n in rare))


def small_images():
    """Files with images in the form of CIFAR-10."""
    import pickle

    draw = np.random.RandomState(0)
    os.makedirs("images/cifar-10-python/cifar-10-batches-py", exist_ok=True)
    for name in [f"data_batch_{n}" for n in range(1, 6)] + ["test_batch"]:
        smooth = draw.randint(0, 256, (20, 3, 4, 4)).repeat(8, 2).repeat(8, 3)
        values = {"data": smooth.reshape(20, -1).astype(np.uint8), "labels": draw.randint(0, 10, 20).tolist()}
        with open(f"images/cifar-10-python/cifar-10-batches-py/{name}", "wb") as file:
            pickle.dump(values, file)


# The part of networkx's first versions that GraphSAGE uses.
NETWORK = """
import sys
import types

__version__ = "1.11"


class Graph:
    def __init__(self, count):
        self.node = {n: {} for n in range(count)}
        self.near = {n: {} for n in range(count)}

    nodes = lambda self: list(self.node)
    neighbors = lambda self, n: list(self.near[n])
    degree = lambda self, n: len(self.near[n])
    edges = lambda self: [(a, b) for a, near in self.near.items() for b in near if a < b]
    __getitem__ = lambda self, n: self.near[n]


def node_link_graph(made):
    graph = Graph(len(made["nodes"]))
    for n, values in enumerate(made["nodes"]):
        graph.node[n] = values
    for link in made["links"]:
        a, b = link["source"], link["target"]
        graph.near[a][b] = graph.near[b][a] = {}
    return graph


for name in ("networkx.readwrite", "networkx.readwrite.json_graph"):
    sys.modules[name] = types.ModuleType(name)
json_graph = sys.modules["networkx.readwrite.json_graph"]
json_graph.node_link_graph = node_link_graph
readwrite = sys.modules["networkx.readwrite"]
readwrite.json_graph = json_graph
"""


def network():
    """A graph with features and classes."""
    import json

    write("networkx.py", NETWORK)
    draw, count = np.random.RandomState(0), 600
    kinds = draw.randint(0, 4, count)
    links = {(int(a), int(b)) for a, b in draw.randint(0, count, (6000, 2)) if a < b and kinds[a] == kinds[b]}
    nodes = [{"val": n % 10 == 0, "test": n % 10 == 1} for n in range(count)]
    made = {"nodes": nodes, "links": [{"source": a, "target": b} for a, b in sorted(links)]}
    write("made/net-G.json", json.dumps(made))
    write("made/net-id_map.json", json.dumps({n: n for n in range(count)}))
    write("made/net-class_map.json", json.dumps({n: int(kinds[n]) for n in range(count)}))
    np.save("made/net-feats.npy", draw.normal(0, 1, (count, 20)) + np.eye(4)[kinds].repeat(5, 1))


def sampling_of_cubes():
    """`pyDOE`, as far as it gives points, and plots that are not drawn."""
    write(
        "pyDOE.py",
        "import numpy as np\n\n\ndef lhs(n, samples):\n    return np.random.uniform(0, 1, (samples, n))\n",
    )


def without(folder):
    return lambda: shutil.rmtree(folder)
