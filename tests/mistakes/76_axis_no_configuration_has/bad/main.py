import sys

from trainer.config import Config
from trainer.core import Trainer


def main(argv):
    path = argv[1] if len(argv) > 1 else "conf/base.yaml"
    w, loss = Trainer(Config.load(path)).fit()
    print(w.sharding.spec, float(loss))


if __name__ == "__main__":
    main(sys.argv)
