"""Writes predictions as JSON lines."""

import argparse
import io
import json

import jax
import numpy as np

from inference import Predictor
from model import Classifier


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--examples", type=int, default=32)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()

    model = Classifier(classes=3)
    x = np.random.default_rng(0).normal(size=(args.examples, 8)).astype(np.float32)
    predictor = Predictor(model, model.init(jax.random.key(0), x[:1]))
    out, written = io.StringIO(), 0
    for start in range(0, args.examples, args.batch):
        result = predictor(x[start : start + args.batch])
        for label, confidence in zip(result["label"], result["confidence"]):
            out.write(json.dumps({"label": int(label), "confidence": float(confidence)}) + "\n")
            written += 1
    print(f"wrote {written} predictions for {args.examples} examples")


if __name__ == "__main__":
    main()
