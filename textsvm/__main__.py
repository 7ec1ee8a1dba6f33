"""python -m textsvm, and the console script of the same name."""

import sys


def main() -> None:
    """Run the command line; a running server decides on mail before the command line is imported."""
    if sys.argv[1:3] == ["mail", "classify"]:
        from textsvm.mail import quick

        quick.finish(quick.classify(sys.argv[3:]))
    from textsvm.cli import main

    main()


if __name__ == "__main__":
    main()
