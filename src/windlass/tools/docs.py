"""The text of a docstring: the purpose, and the meaning of each parameter.

Google, NumPy, Sphinx and Epydoc style. The parser is loaded only for a docstring that has such
sections: most have a sentence or two, and those need no parser.
"""

from __future__ import annotations

import inspect
import re

import msgspec

_SECTIONS = r"""(?mx)^[ \t]*(?:
          (?:Args|Arguments|Params|Parameters|Attributes|Returns?|Yields?|Raises|Examples?
             |Keyword[ ]Args|Other[ ]Parameters):[ \t]*$     # Google
        | (?:Parameters|Attributes|Returns|Yields|Raises|Other[ ]Parameters)[ \t]*\n[ \t]*-{3,}  # NumPy
        | [:@](?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?)\b         # Sphinx
    )"""


class Docs(msgspec.Struct, frozen=True):
    """A parsed docstring."""

    description: str = ""
    parameters: dict[str, str] = {}


_NOTHING = Docs()


def read_docs(docstring: str | None) -> Docs:
    """Parse the description and the documented parameters: `read_docs(fn.__doc__)`."""
    if not docstring:
        return _NOTHING
    text = inspect.cleandoc(docstring)
    if "\n" not in text or not re.search(_SECTIONS, text):
        return Docs(text)
    from docstring_parser import ParseError, parse  # 50 ms to load; see above

    try:
        doc = parse(text)
    except ParseError:
        return Docs(text)
    parts = [doc.short_description or "", doc.long_description or ""]
    if doc.returns and doc.returns.description:
        parts.append(f"Returns: {doc.returns.description}")
    parameters = {
        param.arg_name.lstrip("*"): " ".join(param.description.split())
        for param in doc.params
        if param.description
    }
    return Docs("\n\n".join(part.strip() for part in parts if part.strip()), parameters)
