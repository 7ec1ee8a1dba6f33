"""Entry point of the console script and of `python -m textsvm`."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C during its imports ends without a traceback, too."""
    try:
        from textsvm.cli import main as run

        run()
    except KeyboardInterrupt:
        print("textsvm: interrupted; no output was written", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
