"""`python -m nanobot`."""

from nanobot.cli import main

if __name__ == "__main__":
    main()
