"""The programs that `public_programs.py` runs: where each is from, its arguments, and what it needs to run today.

A patch is a file, an expression and what takes its place. Data is made up, small, and the same in each run.
"""

import dataclasses
from typing import Callable

import program_data as data_of


@dataclasses.dataclass
class Program:
    name: str
    repository: str
    commit: str
    kind: str
    script: str
    arguments: tuple = ()
    # Where it runs, below its own folder.
    folder: str = "."
    patches: tuple = ()
    data: Callable | None = None
    # How many runs of sessions are compared, those that fetch a float.
    steps: int = 20
    # The fetch that is its loss.
    loss: str = "(?i)loss|cost"
    # Seconds.
    limit: int = 600


PROGRAMS = [
    Program(
        "sentence CNN",
        "dennybritz/cnn-text-classification-tf",
        "18762b459e21d9c70e5c242f8d43fc4e6db37a0d",
        "convolution over words, dropout, Adam, summaries",
        "train.py",
        arguments=("--num_filters=16", "--batch_size=16"),
        steps=10,
    ),
    Program(
        "char-rnn",
        "sherjilozair/char-rnn-tensorflow",
        "4bff62d34ba6d536f052145cd3f8f79b6fa11365",
        "unrolled LSTM, sequence loss",
        "train.py",
        arguments=("--rnn_size=64", "--seq_length=20"),
    ),
    Program(
        "GCN",
        "tkipf/gcn",
        "39a4089fe72ad9f055ed6fdb9746abdcfebc4d81",
        "graph convolution, sparse tensors",
        "gcn/train.py",
        folder="gcn",
    ),
    Program(
        "siamese MNIST",
        "ywpkwon/siamese_tf_mnist",
        "addcae7a8bc211d35c553f7725bd1dd31266cf9e",
        "two towers, contrastive loss",
        "run.py",
    ),
    Program(
        "CapsNet",
        "naturomics/CapsNet-Tensorflow",
        "5b464caab361ec402c1b17acb9bc2680e5fbb7de",
        "capsules, routing, Supervisor, queues",
        "main.py",
        arguments=("--batch_size=8", "--train_sum_freq=1", "--val_sum_freq=0"),
        data=data_of.mnist("data/mnist"),
        steps=6,
    ),
    Program(
        "DCGAN",
        "carpedm20/DCGAN-tensorflow",
        "62c9a2a7f74505cad30858bf40307c93e5bd9293",
        "adversarial, transposed convolution, batch norm",
        "main.py",
        arguments=(
            "--dataset=mnist",
            "--data_dir=data",
            "--input_height=28",
            "--output_height=28",
            "--train",
            "--batch_size=8",
        ),
        data=data_of.mnist("data/mnist"),
        steps=12,
    ),
    Program(
        "VAE, convolutional",
        "kvfrans/variational-autoencoder",
        "e6c94c6d4cee06b22c710923c3a8bbed84b88794",
        "variational, transposed convolution, Python 2",
        "main.py",
        patches=(
            ("input_data.py", r"(bytestream.read\(4\), dtype=dt\))", r"\1[0]"),
            ("utils.py", "idx / size", "idx // size"),
        ),
        data=data_of.mnist("MNIST_data", packed=True),
    ),
    Program(
        "VAE, dense",
        "hwalsuklee/tensorflow-mnist-VAE",
        "e7903ac398aa5fc3eec8470177abf6ef78d9cac1",
        "variational, dropout, Adam",
        "run_main.py",
        arguments=("--dim_z=20", "--PRR="),
        data=data_of.mnist("data", packed=True),
    ),
    Program(
        "SRCNN",
        "tegg89/SRCNN-Tensorflow",
        "78be1a24697935fc39a3a8cf59a6632264afade7",
        "super resolution",
        "main.py",
        arguments=("--batch_size=32",),
        # Its own checkpoint is of the first format, which Thalweg does not read.
        data=data_of.without("checkpoint/srcnn_21"),
    ),
    Program(
        "end-to-end memory network",
        "domluna/memn2n",
        "8a4915ac18e95db3828f3ad862609718c28a17e8",
        "questions on stories, clipped and noisy gradients",
        "single.py",
        arguments=("--random_state=1",),
        patches=(("data_utils.py", r"\(\\W\+\)\?", r"(\\W+)"),),
        data=data_of.questions,
    ),
    Program(
        "memory network of words",
        "carpedm20/MemN2N-tensorflow",
        "f8f4da4ca1b3a4afa764748a6907e79ab2be1ffd",
        "language model on memory",
        "main.py",
        arguments=("--batch_size=32", "--mem_size=20"),
        patches=(("main.py", "^FLAGS = ", 'flags.DEFINE_integer("nwords", 0, "")\nFLAGS = '),),
        data=data_of.words_of_text,
    ),
    Program(
        "DeepFM",
        "ChenglongChen/tensorflow-DeepFM",
        "a43dd5ff1f61a275c8a6e0fd659e200af64093cc",
        "factorization machine, embeddings, batch norm",
        "fit.py",
        data=data_of.clicks,
    ),
    Program(
        "WGAN-GP",
        "wiseodd/generative-models",
        "b930d5fa9e2f69adfd4ea8ec759f38f6ce6da4c2",
        "adversarial, gradient of a gradient",
        "GAN/improved_wasserstein_gan/wgan_gp_tensorflow.py",
    ),
    Program(
        "attention over words",
        "ilivans/tf-rnn-attention",
        "aeefc5d68870fc5544c585aff1e7b32c4777bc0e",
        "GRU in both directions, attention",
        "train.py",
        patches=(
            ("train.py", "from keras.datasets import imdb", "import made_imdb as imdb"),
            ("train.py", "BATCH_SIZE = 256", "BATCH_SIZE = 16"),
        ),
        data=data_of.reviews,
        steps=6,
    ),
    Program(
        "pix2pix",
        "affinelayer/pix2pix-tensorflow",
        "0f2174424356162920fc25067e63db2bcf19f4e7",
        "conditional adversarial, image queue, moving averages",
        "pix2pix.py",
        arguments=(
            "--mode=train",
            "--input_dir=pairs",
            "--output_dir=out",
            "--seed=1",
            "--ngf=4",
            "--ndf=4",
            "--progress_freq=1",
            "--max_epochs=5",
            "--no_flip",
        ),
        data=data_of.images("pairs", 4, 128, 256),
        steps=6,
    ),
    Program(
        "U-Net",
        "jakeret/tf_unet",
        "0dcdf2ff1ebcc2ee59997d127a0c0be847168884",
        "segmentation, momentum, dropout, checkpoint",
        "scripts/launcher.py",
        patches=(
            ("scripts/launcher.py", "nx=572, ny=572", "nx=196, ny=196"),
            ("scripts/launcher.py", "features_root=16", "features_root=4"),
        ),
        steps=10,
    ),
    Program(
        "SeqGAN",
        "LantaoYu/SeqGAN",
        "e2b52fb6309851b14765290e8a972ccac09f1bec",
        "text, policy gradient, TensorArray loops, Python 2",
        "sequence_gan.py",
        patches=(
            ("sequence_gan.py", "generated_num = 10000", "generated_num = 128"),
            ("sequence_gan.py", "PRE_EPOCH_NUM = 120", "PRE_EPOCH_NUM = 2"),
            ("sequence_gan.py", r"range\(50\)", "range(1)"),
            ("sequence_gan.py", r"target_params.pkl'\)", "target_params_py3.pkl', 'rb')"),
        ),
    ),
    Program(
        "CTC",
        "igormq/ctc_tensorflow_example",
        "d71130f6b870215a1eb7949c2f922c8c24d9d6dd",
        "LSTM, CTC loss and decoding, sparse labels",
        "ctc_tensorflow_example.py",
        data=data_of.speech,
    ),
    Program(
        "GAT",
        "PetarV-/GAT",
        "5af87e7fce2b90ae1cbd621cd58059036a3c7436",
        "graph attention, sparse softmax",
        "execute_cora_sparse.py",
        steps=6,
    ),
    Program(
        "LSTM MNIST",
        "nlintz/TensorFlow-Tutorials",
        "d6bdab7df46492446c48537fcf37e20ba44e8168",
        "unrolled LSTM, RMSProp",
        "07_lstm.py",
        patches=(("07_lstm.py", r"sess.run\(train_op,", "sess.run([train_op, cost],"),),
    ),
    Program(
        "VAE of a tutorial",
        "pkmital/tensorflow_tutorials",
        "c3eefe59979cdde7b8cb59d2c52da8ebebe43254",
        "variational, softplus",
        "python/11_variational_autoencoder.py",
    ),
    Program(
        "DDPG",
        "MorvanZhou/Reinforcement-learning-with-tensorflow",
        "93e333484be0e262d28b65507b6a1d002424a056",
        "actor and critic, soft updates",
        "contents/9_Deep_Deterministic_Policy_Gradient_DDPG/DDPG.py",
        data=data_of.pendulum("contents/9_Deep_Deterministic_Policy_Gradient_DDPG"),
        patches=(
            (
                "contents/9_Deep_Deterministic_Policy_Gradient_DDPG/DDPG.py",
                "^MEMORY_CAPACITY = .*",
                "MEMORY_CAPACITY = 50",
            ),
        ),
        steps=120,
    ),
    Program(
        "PPO",
        "MorvanZhou/Reinforcement-learning-with-tensorflow",
        "93e333484be0e262d28b65507b6a1d002424a056",
        "policy gradient, distributions",
        "contents/12_Proximal_Policy_Optimization/simply_PPO.py",
        data=data_of.pendulum("contents/12_Proximal_Policy_Optimization"),
        steps=120,
    ),
    Program(
        "CycleGAN",
        "vanhuyz/CycleGAN-TensorFlow",
        "befe2f57032ee6c25d0dbd1f497f5b5432375da5",
        "records, image queue, instance norm",
        "train.py",
        arguments=("--image_size=64", "--ngf=8", "--X=a.tfrecords", "--Y=b.tfrecords"),
        data=data_of.records_of_images,
        steps=5,
    ),
    Program(
        "CRF tagger",
        "guillaumegenthial/sequence_tagging",
        "5cb9890e7c52e35a1239378da43a8de7be508003",
        "LSTM over characters and words, CRF",
        "train.py",
        data=data_of.tags,
        patches=(("model/config.py", "^    batch_size .*", "    batch_size = 2"),),
    ),
    Program(
        "transformer",
        "Kyubyong/transformer",
        "fb023bb097e08d53baf25b46a9da490beba51a21",
        "attention, queues, Supervisor",
        "tf1.2_legacy/train.py",
        data=data_of.translations,
        folder=".",
        patches=(
            ("tf1.2_legacy/hyperparams.py", "hidden_units = 512", "hidden_units = 64"),
            ("tf1.2_legacy/hyperparams.py", "num_blocks = 6", "num_blocks = 2"),
            ("tf1.2_legacy/train.py", r"sess.run\(g.train_op\)", "sess.run([g.train_op, g.mean_loss])"),
        ),
    ),
    Program(
        "NMT",
        "tensorflow/nmt",
        "0be864257a76c151eef20ea689755f08bc1faf4e",
        "GRU or LSTM with attention, tf.data, lookup tables",
        "nmt.nmt",
        data=data_of.pairs_of_sentences,
        arguments=(
            "--src=a",
            "--tgt=b",
            "--vocab_prefix=text/vocab",
            "--train_prefix=text/train",
            "--dev_prefix=text/dev",
            "--test_prefix=text/test",
            "--out_dir=out",
            "--num_units=32",
            "--attention=scaled_luong",
            "--num_train_steps=40",
            "--steps_per_stats=1",
            "--batch_size=16",
        ),
    ),
    Program(
        "Tacotron",
        "keithito/tacotron",
        "d26c763342518d4e432e9c4036a1aff3b4fdaa1e",
        "speech, attention, CBHG, queue fed by a thread",
        "train.py",
        data=data_of.spectrograms,
        arguments=("--base_dir=base", "--hparams=batch_size=4"),
        steps=5,
        limit=280,
    ),
    Program(
        "word2vec",
        "tensorflow1",
        "7cbba04a2ee16d21309eefad5be6585183a2d5a9",
        "embeddings, noise-contrastive loss, sampled classes",
        "tensorflow/examples/tutorials/word2vec/word2vec_basic.py",
        arguments=("--log_dir=log",),
        patches=(
            (
                "tensorflow/examples/tutorials/word2vec/word2vec_basic.py",
                r"filename = maybe_download\([^)]*\)",
                'filename = "text8.zip"',
            ),
            (
                "tensorflow/examples/tutorials/word2vec/word2vec_basic.py",
                "vocabulary_size = 50000",
                "vocabulary_size = 900",
            ),
        ),
        data=data_of.words_in_a_zip,
    ),
    Program(
        "estimator MNIST",
        "tensorflow1",
        "7cbba04a2ee16d21309eefad5be6585183a2d5a9",
        "tf.estimator, convolution, input queue",
        "tensorflow/examples/tutorials/layers/cnn_mnist.py",
        patches=(
            ("tensorflow/examples/tutorials/layers/cnn_mnist.py", "/tmp/mnist_convnet_model", "model"),
            ("tensorflow/examples/tutorials/layers/cnn_mnist.py", "shuffle=True", "shuffle=False"),
        ),
    ),
    Program(
        "PixelCNN++",
        "openai/pixel-cnn",
        "bbc15688dd37934a12c2759cf2b34975e15901d9",
        "autoregressive images, weight norm, moving averages",
        "train.py",
        data=data_of.small_images,
        arguments=(
            "--data_dir=images",
            "--save_dir=save",
            "--nr_resnet=1",
            "--nr_filters=8",
            "--nr_logistic_mix=2",
            "--batch_size=2",
            "--init_batch_size=2",
            "--nr_gpu=1",
        ),
        patches=(("data/cifar10_data.py", "10000,3,32,32", "-1,3,32,32"), ("train.py", "/gpu:", "/cpu:")),
        steps=6,
        loss=".",
    ),
    Program(
        "GraphSAGE",
        "williamleif/GraphSAGE",
        "a0fdef95dca7b456dab01cb35034717c8b6dd017",
        "sampled neighbours, aggregators",
        "graphsage/supervised_train.py",
        data=data_of.network,
        arguments=(
            "--train_prefix=made/net",
            "--batch_size=64",
            "--samples_1=10",
            "--samples_2=5",
            "--dim_1=32",
            "--dim_2=32",
        ),
    ),
    Program(
        "PINN",
        "maziarraissi/PINNs",
        "932f50a2d8ef4e80d1456bbae6887a73ff5166ef",
        "second derivatives, L-BFGS of SciPy",
        "appendix/continuous_time_inference (Burgers)/Burgers.py",
        folder="appendix/continuous_time_inference (Burgers)",
        data=data_of.sampling_of_cubes,
        patches=(
            ("appendix/continuous_time_inference (Burgers)/Burgers.py", "N_f = 10000", "N_f = 500"),
            ("Utilities/plotting.py", "^mpl.rcParams.update.*", ""),
        ),
    ),
]
