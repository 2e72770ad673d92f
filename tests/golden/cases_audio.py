"""Sounds: AudioSpectrogram, Mfcc, DecodeWav, EncodeWav."""

import numpy as np

from inputs import generator, rnd
from reference import f32, i32, tf, v1


def add(s):
    """Adds the cases of this module."""
    for label, samples, channels, window, stride in (
        ("", 40, 1, 16, 8),
        ("stereo", 50, 2, 12, 5),
        ("short", 7, 1, 16, 8),
        ("exact", 16, 3, 16, 1),
    ):
        for squared in (False, True):
            s.case(
                "AudioSpectrogram",
                f"{label or 'mono'}{'_squared' * squared}",
                tol=(1e-5, 1e-5),
                audit=False,
                input=rnd(f32, [samples, channels], -1, 1),
                window_size=window,
                stride=stride,
                magnitude_squared=squared,
            )
    spectra = rnd(f32, [2, 3, 129], 0, 4)
    rate = i32(16000)
    for label, attrs in (
        ("", {}),
        ("narrow", {"lower_frequency_limit": 300.0, "upper_frequency_limit": 3000.0}),
        ("few", {"filterbank_channel_count": 10, "dct_coefficient_count": 10}),
    ):
        given = {"spectrogram": spectra, "sample_rate": rate}
        s.case("Mfcc", label or "default", tol=(1e-4, 1e-4), audit=False, **given, **attrs)
    sounds(s)


def sounds(s):
    """Files of samples, and samples of files."""
    for label, frames, channels in (("mono", 9, 1), ("stereo", 5, 2), ("empty", 0, 1)):
        audio = rnd(f32, [frames, channels], -1.2, 1.2).draw(generator(label))
        s.case("EncodeWav", label, tol=None, audit=False, audio=audio, sample_rate=i32(8000))
        with tf.Graph().as_default(), v1.Session() as session:
            file = session.run(tf.audio.encode_wav(audio, i32(8000)))
        contents = np.array(file, object)
        for wanted, attrs in (
            ("", {}),
            ("three", {"desired_channels": 3}),
            ("longer", {"desired_samples": 12}),
            ("shorter", {"desired_samples": 2, "desired_channels": 1}),
        ):
            if frames or not wanted:
                s.case("DecodeWav", f"{label}{'_' * bool(wanted)}{wanted}", tol=None, audit=False, contents=contents, **attrs)
