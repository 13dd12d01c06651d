"""`python -m aliquot`: the command line."""

from aliquot.cli.main import main

if __name__ == "__main__":
    main()
