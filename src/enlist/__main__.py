"""`python -m enlist` is `enlist`."""

from enlist.cli import main

main()
