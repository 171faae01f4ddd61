"""``python -m tailmiss`` is the command ``tailmiss``."""

from .cli import main

if __name__ == "__main__":
    main()
