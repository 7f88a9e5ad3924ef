"""The command line as a module: `python -m windlass run …`."""

from windlass.cli.main import main

if __name__ == "__main__":
    main()
