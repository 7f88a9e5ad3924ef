"""Random folders with `.gitignore` files, and random patterns for what is in them."""

from __future__ import annotations

import random
import re
from pathlib import Path

_NAMES = [
    *"a b ab a.py b.py c.txt d build src x.log .hid foo foo.py bar ä [x] a*b".split(),
    "sp ace",
]
# Not `a**`, which git lets stand for a slash as well, against its manual.
_RULES = [
    *"a b ab *.py *.txt * a* ? [ab] [!a]* foo build src x.log *.log .hid ä \\[x\\] [a-c] **".split(),
    "sp ace",
    "sp\\ ace",
    "f*o*",
]
_WORDS = [
    *"foo bar Foo FOO k K \u212a ſ s ß İ i ä Ä é 1 ٣ ½ _ ( ) x=1 aaa ab 日本".split(),
    *["", " ", "\t", "\x1c", "\u2028", "\x85"],
]
_ATOMS = r"""
    foo bar F a k s i ä é \w \W \d \D \s \S . [a-z] [^a] [^\w] [äö] [k-s] [A-Z] \b ^ $ \B \A \Z (foo|bar)
    (?:a|b|é) (?i:foo) (?=f) (?!f) (?<=o) (?<!o) (f)(o)\2 日 _ 1 \t (?>a+) x \( \x1c [\s\d] ß K ſ (?s:.) (?a:\w)
    foo\s+bar
""".split()
_COUNTS = ["", "", "", "", "*", "+", "?", "{2}", "{1,3}", "+?", "*+", "{0,2}"]
_GLOBS = "*.py **/*.py a* src/** build/*.py {a,b}* *.{py,txt} [ab]* **/foo/** ? ä* /a.py".split()


def make_tree(rng: random.Random, folder: Path, depth: int = 0) -> None:
    """Fill a folder with files, folders and rules."""
    for name in rng.sample(_NAMES, rng.randint(2, 6)):
        path = folder / name
        if depth < 3 and rng.random() < 0.5:
            path.mkdir()
            make_tree(rng, path, depth + 1)
        else:
            path.write_bytes(make_content(rng))
    if rng.random() < (0.3 if depth else 0.9):
        rules = "".join([make_rule(rng) + "\n" for _ in range(rng.randint(1, 6))])
        (folder / ".gitignore").write_text(rules)


def make_rule(rng: random.Random) -> str:
    """Return a line for a `.gitignore` file."""
    rule = "/".join([rng.choice(_RULES) for _ in range(rng.choice([1, 1, 1, 2, 2, 3]))])
    for chance, change in (
        (0.2, lambda text: f"/{text}"),
        (0.25, lambda text: f"{text}/"),
        (0.25, lambda text: f"!{text}"),
        (0.03, lambda text: f"#{text}"),
        (0.05, lambda text: f"{text}  "),
    ):
        if rng.random() < chance:
            rule = change(rule)
    return rule


def make_content(rng: random.Random) -> bytes:
    """Return lines with letters of many kinds, odd line ends, and sometimes no UTF-8."""
    lines: list[bytes] = []
    for _ in range(rng.randint(0, 6)):
        line = "".join(rng.choices(_WORDS, k=rng.randint(0, 4))).encode()
        if rng.random() < 0.15:
            line += rng.choice([b"\xff", b"\xc3", b"\xe6\x97", b"\r", b"\xf0\x9f\x98\x80"])
            line += rng.choice([b"", b"foo"])
        lines.append(line)
    end = rng.choice([b"\n", b"\n", b"\r\n"])
    data = end.join(lines) + (end if rng.random() < 0.7 else b"")
    if rng.random() < 0.05:
        data += b"\0foo"
    return b"\xef\xbb\xbf" + data if rng.random() < 0.15 else data


def make_pattern(rng: random.Random) -> str:
    """Return a regular expression that Python takes."""
    while True:
        atoms = [rng.choice(_ATOMS) + rng.choice(_COUNTS) for _ in range(rng.randint(1, 4))]
        pattern = "".join(atoms)
        if rng.random() < 0.2:
            pattern = f"(?:{pattern}){rng.choice(_COUNTS)}"
        if rng.random() < 0.2:
            pattern = f"{pattern}|{rng.choice(_ATOMS)}"
        try:
            re.compile(pattern)
        except re.error:
            continue
        return pattern


def make_glob(rng: random.Random) -> str | None:
    """Return a glob, or most often none."""
    return rng.choice(_GLOBS) if rng.random() < 0.3 else None


def find_lines(data: bytes, pattern: str, *, ignore_case: bool) -> list[tuple[int, str]]:
    """Find the lines that match, as plainly as it can be said."""
    if b"\0" in data[:8192]:
        return []
    match = re.compile(pattern, re.IGNORECASE if ignore_case else 0).search
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    last = lines.pop()
    texts = [one.removesuffix(b"\r") for one in lines] + ([last] if last else [])
    shown = [one.decode("utf-8", "replace") for one in texts]
    return [(number, text) for number, text in enumerate(shown, 1) if match(text)]
