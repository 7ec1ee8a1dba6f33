"""python -m textsvm"""

from textsvm.cli import main

main()
