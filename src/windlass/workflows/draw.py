"""Pictures of a graph: for a terminal, as Mermaid, and as HTML; with how far each node came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from windlass.workflows.graph import Edge, Graph, find_back_edges
from windlass.workflows.steps import WorkflowStep

#: How far a step is: as `WorkflowStep.status` says, or parked, or left by a process that died.
WAITING: Final = "waits"
UNFINISHED: Final = "unfinished"
_MARKS: Final = {
    "done": "●",
    "failed": "✗",
    "running": "◐",
    WAITING: "◇",
    UNFINISHED: "◌",
    "": "○",
}
_FILLS: Final = {
    "done": "#d6f5dd",
    "failed": "#fbd9d9",
    "running": "#fff1c9",
    WAITING: "#dbe7ff",
    UNFINISHED: "#e4d9cf",
    "": "#f3f4f6",
}
_REFRESH: Final = '<meta http-equiv="refresh" content="2">'
_WIDTH: Final = 150
_HEIGHT: Final = 44
_GAP: Final = (40, 56)


class _State(NamedTuple):
    """How far a node came: its last status, and how often it was begun."""

    status: str = ""
    verdict: str | None = None
    visits: int = 0

    @property
    def words(self) -> str:
        if not self.status:
            return ""
        said = self.verdict or self.status
        return said if self.visits < 2 else f"{said}, {self.visits} times"


def _read_states(steps: Sequence[WorkflowStep]) -> dict[str, _State]:
    states: dict[str, _State] = {}
    for step in steps:
        before = states.get(step.name, _State())
        states[step.name] = _State(step.status, step.verdict, before.visits + 1)
    return states


def _label(edge: Edge) -> str:
    said = [word for word in (edge.on, edge.words) if word]
    return " and ".join(said)


# --------------------------------------------------------------------------- terminal


def draw_text(graph: Graph, steps: Sequence[WorkflowStep] = ()) -> str:
    """Draw the graph as lines: each node in the order of its layer, with its edges."""
    states = _read_states(steps)
    back = {id(edge) for edge in find_back_edges(graph.entry, graph.edges)}
    lines = [graph.name]
    for row in _layer(graph):
        for node in row:
            state = states.get(node, _State())
            kind = graph.nodes[node].kind
            words = f"  {state.words}" if state.words else ""
            lines.append(f"  {_MARKS[state.status]} {node} ({kind}){words}")
            edges = graph.edges_from(node)
            for at, edge in enumerate(edges):
                corner = "└" if at == len(edges) - 1 else "├"
                label = f" {_label(edge)} " if _label(edge) else ""
                loop = " (loop)" if id(edge) in back else ""
                lines.append(f"    {corner}─{label}─> {edge.target}{loop}")
    return "\n".join(lines)


def draw_steps(name: str, steps: Sequence[WorkflowStep], format: str, *, live: bool = False) -> str:
    """Draw the steps of a workflow that is a function, in the order in which they were begun."""
    if format == "mermaid":
        lines = ["flowchart TD", f'    n0(["{_quote(name)}"])']
        for step in steps:
            text = _quote(f"{step.name}: {step.status}")
            lines.append(f'    n{step.number}["{text}"]')
        for step in steps:
            lines.append(f"    n{_find_parent(step, steps)} --> n{step.number}")
        return "\n".join(lines)
    if format == "html":
        return _write_page(name, "", steps, live)
    lines = [name]
    for step in steps:
        indent = "  " * (1 + step.key.count(".") // 2)
        lines.append(f"{indent}{_MARKS[step.status]} {step.name} ({step.kind})  {step.status}")
    return "\n".join(lines)


def _find_parent(step: WorkflowStep, steps: Sequence[WorkflowStep]) -> int:
    """Find the step before this one in its branch, or where the branch began; 0 for none."""
    head, _, last = step.key.rpartition(".")
    by_key = {one.key: one.number for one in steps}
    before = f"{head}.{int(last) - 1}" if head else str(int(last) - 1)
    if before in by_key:
        return by_key[before]
    while head:  # a branch begins where the one around it stood
        head = head.rpartition(".")[0]
        around, _, at = head.rpartition(".")
        before = f"{around}.{int(at) - 1}" if around else str(int(at) - 1)
        if before in by_key:
            return by_key[before]
        head = around
    return 0


def _layer(graph: Graph) -> list[list[str]]:
    """Place each node below all that lead to it, loops left out."""
    back = {id(edge) for edge in find_back_edges(graph.entry, graph.edges)}
    depth = dict.fromkeys(graph.nodes, 0)
    forward = [edge for edge in graph.edges if id(edge) not in back]
    for _ in graph.nodes:
        moved = False
        for edge in forward:
            if depth[edge.target] <= depth[edge.source]:
                depth[edge.target] = depth[edge.source] + 1
                moved = True
        if not moved:
            break
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for node, at in depth.items():
        rows[at].append(node)
    return rows


# --------------------------------------------------------------------------- Mermaid


def draw_mermaid(graph: Graph, steps: Sequence[WorkflowStep] = ()) -> str:
    """Draw the graph as a Mermaid flowchart."""
    states = _read_states(steps)
    ids = {node: f"n{at}" for at, node in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node, short in ids.items():
        words = states.get(node, _State()).words
        text = _quote(f"{node}: {words}" if words else node)
        shape = {"verify": '{"%s"}', "subagent": '[["%s"]]'}.get(graph.nodes[node].kind, '["%s"]')
        lines.append(f"    {short}{shape % text}")
    for edge in graph.edges:
        label = f'|"{_quote(_label(edge))}"|' if _label(edge) else ""
        lines.append(f"    {ids[edge.source]} -->{label} {ids[edge.target]}")
    for node, state in states.items():
        if node in ids:
            lines.append(f"    style {ids[node]} fill:{_FILLS[state.status]}")
    return "\n".join(lines)


def _quote(text: str) -> str:
    """Write a text so that Mermaid takes it for words."""
    return escape(text, quote=True).replace("&", "#").replace("\n", " ")


# --------------------------------------------------------------------------- HTML


def draw_html(graph: Graph, steps: Sequence[WorkflowStep] = (), *, live: bool = False) -> str:
    """Draw the graph as a page of HTML that loads nothing; with `live` itself, again and again."""
    return _write_page(graph.name, draw_svg(graph, steps), steps, live)


def _write_page(title: str, picture: str, steps: Sequence[WorkflowStep], live: bool) -> str:
    name = escape(title)
    refresh = _REFRESH if live else ""
    rows = "".join([_describe(step) for step in steps])
    table = f"<table><tr><th>step<th>node<th>status<th>output</tr>{rows}</table>" if rows else ""
    style = (
        "body{font:14px system-ui,sans-serif;margin:2rem;color:#111;background:#fff}"
        "td,th{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}"
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8">{refresh}<title>{name}</title>'
        f"<style>{style}</style><h1>{name}</h1>{picture}{table}</html>"
    )


def _describe(step: WorkflowStep) -> str:
    shown = step.text if step.status != "failed" else str((step.error or {}).get("message"))
    cells = (str(step.number), step.name, step.verdict or step.status, shown[:300])
    return "<tr>" + "".join([f"<td>{escape(cell)}" for cell in cells]) + "</tr>"


def draw_svg(graph: Graph, steps: Sequence[WorkflowStep] = ()) -> str:
    """Draw the graph as an SVG element."""
    states, rows = _read_states(steps), _layer(graph)
    places: dict[str, tuple[int, int]] = {}
    for down, row in enumerate(rows):
        for across, node in enumerate(row):
            x = 20 + across * (_WIDTH + _GAP[0])
            places[node] = (x, 20 + down * (_HEIGHT + _GAP[1]))
    width = 140 + max([len(row) for row in rows]) * (_WIDTH + _GAP[0])
    height = 40 + len(rows) * (_HEIGHT + _GAP[1])
    lines = [_draw_edge(edge, places) for edge in graph.edges]
    boxes = [_draw_node(node, places[node], states.get(node, _State())) for node in graph.nodes]
    head = '<marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    head += 'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#555"/></marker>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{escape(graph.name, quote=True)}" font-family="system-ui,sans-serif" '
        f'font-size="12"><defs>{head}</defs>{"".join(lines)}{"".join(boxes)}</svg>'
    )


def _draw_node(node: str, place: tuple[int, int], state: _State) -> str:
    x, y = place
    shown = node if len(node) <= 20 else f"{node[:19]}…"
    words = f'<tspan x="{x + 10}" dy="15" fill="#555">{escape(state.words)}</tspan>'
    return (
        f'<g><title>{escape(node)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'rx="6" fill="{_FILLS[state.status]}" stroke="#888"/>'
        f'<text x="{x + 10}" y="{y + 19}">{escape(shown)}{words}</text></g>'
    )


def _draw_edge(edge: Edge, places: Mapping[str, tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    middle = _WIDTH // 2
    if y2 > y1:  # down
        start, end = (x1 + middle, y1 + _HEIGHT), (x2 + middle, y2)
        bend = (start[1] + end[1]) // 2
        path = f"M{start[0]} {start[1]}C{start[0]} {bend} {end[0]} {bend} {end[0]} {end[1]}"
        at = ((start[0] + end[0]) // 2 + 4, bend)
    else:  # back up, round the right side
        start, end = (x1 + _WIDTH, y1 + _HEIGHT // 2), (x2 + _WIDTH, y2 + _HEIGHT // 2)
        side = max(start[0], end[0]) + 50
        path = f"M{start[0]} {start[1]}C{side} {start[1]} {side} {end[1]} {end[0]} {end[1]}"
        at = (side - 30, (start[1] + end[1]) // 2)
    label = _label(edge)
    said = f'<text x="{at[0]}" y="{at[1]}" fill="#555">{escape(label)}</text>' if label else ""
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#a)"/>{said}'
