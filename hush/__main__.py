"""`python -m hush` is the command hush."""

from hush.cli import main

if __name__ == "__main__":
    main()
