"""Patterns that a hostile or careless model writes for `grep`."""

from __future__ import annotations

CATASTROPHIC = [
    r"(a+)+(?<=b)",
    r"(a*)*(?<=b)",
    r"(a|a)*(?<=b)",
    r"(a|aa)+(?<=b)",
    r"(.*)*(?<=b)x?",
    r"(.*a){20}(?<=b)",
    r"(?:a?){60}a{60}(?<=b)",
    r"(\w+\s?)*(?<=b)",
    r"((a+)+)+\2(?<=b)",
    r"(a+)(a+)(a+)(a+)(a+)\1(?<=b)",
    r"(?=(a+)+)(a+)+(?<=b)",
    r"(?:(?:a|aa)*)*(?<=b)",
    r"^(\w|\d)*(?<=b)",
    r"([a-zA-Z]+)*(?<=b)",
    r"(a{1,100}){1,100}(?<=b)",
    r"(?:.*?,){20}P",
    r"(?i)(A+)+(?<=b)",
    r"(?s)(.+)+(?<=b)",
    r"(?x) ( a + ) + (?<= b )",
    r"(([^b])+)+(?<=b)",
]
INVALID = [
    "(",
    ")",
    "[",
    "*",
    "a**b",
    "(?P<x",
    "(?<=a+)b",
    "\\",
    "(?z)",
    "a{2,1}",
    r"\p{L}",
    r"(?P<a>x)(?P<a>y)",
    r"\1",
    "(?(1)a|b|c)",
    "a{99999999999}",
    "(?i)a(?i)b",
    "[z-a]",
    r"\N{NO SUCH NAME}",
    r"\xZZ",
    "(?<!a*)b",
]
LARGE = [
    "a" * 9_999,
    "(" * 4_000 + ")" * 4_000,
    "(?:" * 300 + "a" + ")" * 300,
    "|".join([f"word{n}" for n in range(900)]),
    "[" + "".join([chr(0x4E00 + n) for n in range(3_000)]) + "]",
    ".{4294967294}",
    "(a{1000}){1000}",
    "(((a{100}){100}){100}){100}",
    "x?" * 4_000,
    ".*" * 400,
    "(a|b|c|d|e)" * 500,
    "a" * 10_001,
    "b" * 1_000_000,
]
ODD = [
    "",
    "^",
    "$",
    r"\A\Z",
    r"\n",
    r"a\nb",
    "\n",
    "\r",
    "\0",
    "\ud800",
    "\ufffd",
    "\U0001f600",
    "\u202e",
    "--pre=touch hacked",
    "-e",
    "--",
    "; touch hacked",
    "$(touch hacked)",
    "`touch hacked`",
    "%s%n",
    "../../../etc/passwd",
    r"\x00",
    r"[^\x00-\x7f]",
    r"(?a)\w+",
    r"(?u)\w+",
    r"\B",
    r"(?!)",
    r"(?=)",
    r"(?#comment)a",
    r"(?<=a)(?<!b)",
    r"(?>a*)b",
    r"a*+b",
    r"(?P<n>a)(?P=n)",
    r"(a)?(?(1)b|c)",
    r"\b\b\b",
    r"^^^^$$$$",
    r"(?:^|$)*",
    r"()*",
    r"(?:)*+",
    r"[\s\S]*",
]


def list_patterns(most: int) -> list[str]:
    """Return up to so many patterns, of every kind first."""
    found: list[str] = []
    kinds = [CATASTROPHIC, INVALID, LARGE, ODD]
    for number in range(max([len(kind) for kind in kinds])):
        found += [kind[number] for kind in kinds if number < len(kind)]
    grown = [
        f"(?:{one})*{other}" for one in CATASTROPHIC for other in ("", "z", "(?<=q)", "$", "^")
    ]
    grown += [f"{one}|{other}" for one, other in zip(ODD, reversed(ODD), strict=True)]
    return list(dict.fromkeys([*found, *grown]))[:most]
