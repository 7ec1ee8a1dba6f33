"""Entry point of the console script and of `python -m textsvm`."""

import gc
import sys

# Modules and Numba's compiler keep many objects; default collections would take a fifth of a short command.
if not {"serve", "label"}.intersection(sys.argv[1:3]):
    gc.set_threshold(300_000)

try:
    from textsvm.cli import main
except KeyboardInterrupt:  # `main` handles the later ones
    print("textsvm: interrupted; no output was written", file=sys.stderr)
    sys.exit(130)

if __name__ == "__main__":
    main()
