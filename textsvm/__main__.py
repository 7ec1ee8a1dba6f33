"""Entry point of the console script and of `python -m textsvm`."""

import sys

try:
    from textsvm.cli import main
except KeyboardInterrupt:  # `main` handles the later ones
    print("textsvm: interrupted; no output was written", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    main()
