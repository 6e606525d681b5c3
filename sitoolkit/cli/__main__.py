"""`python -m sitoolkit.cli` is the `sitoolkit` script."""

from sitoolkit.cli import main

main()
