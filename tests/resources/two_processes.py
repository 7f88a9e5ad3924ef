"""Two processes that drive one session over resources at the same time: `two.py WHO ROUNDS FOLDER [SERVER]`.

For each round they meet, and both go for the session of that round. What became of each is printed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import windlass as w
from tests.resources import scenes
from windlass.testing.kill import Scene


def meet(folder: Path, who: int) -> None:
    """Wait until the other one is here too."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"here{who}").touch()
    until = time.monotonic() + 30
    while not (folder / f"here{1 - who}").exists():
        if time.monotonic() > until:
            raise TimeoutError("the other process is not coming")
        time.sleep(0)


def main(who: int, rounds: int, folder: Path, server: str | None) -> None:
    for number in range(rounds):
        place = folder / str(number)
        params = {"width": 1 + 2 * (number % 2), "rounds": 1, "postgres": server}
        if who == 0:
            scenes.place_of(Scene(place, params))  # its schema is made by one
        meet(place, who)
        time.sleep(0.002 * (number % 5) if who else 0)  # the second comes a little later
        try:
            ended = asyncio.run(scenes.scenario(Scene(place, params)))
        except w.WindlassError as error:
            ended = f"{type(error).__name__}: {error}"
        except AssertionError as error:
            ended = str(error)  # the run ended otherwise than it should
        print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    _, who, rounds, folder, *server = sys.argv
    main(int(who), int(rounds), Path(folder), server[0] if server else None)
