"""The few SVG shapes that the diagrams of the documentation are made of."""

from __future__ import annotations

from xml.sax.saxutils import escape

INK, PALE, FAULT, PAPER = "#1f2933", "#7b8794", "#b42318", "#ffffff"


class Drawing:
    """Shapes in order; ``svg`` gives the same text for the same shapes, whatever the machine."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size = width, height
        self._title = title
        self._shapes: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        double: bool = False,
        fill: str = PAPER,
    ) -> None:
        """A box with round corners about its centre; ``double``: a final state."""
        for inset in (0, 4) if double else (0,):
            self._shapes.append(
                f'<rect x="{x - width / 2 + inset:g}" y="{y - height / 2 + inset:g}" '
                f'width="{width - 2 * inset:g}" height="{height - 2 * inset:g}" rx="8" '
                f'fill="{fill}" stroke="{INK}" stroke-width="1.5"/>'
            )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 13,
        colour: str = INK,
        anchor: str = "middle",
        bold: bool = False,
        halo: bool = False,
    ) -> None:
        """``halo``: the paper shows around the letters, so that a line may pass behind them."""
        weight = ' font-weight="bold"' if bold else ""
        # the halo is a text of its own: not every reader of SVG knows paint-order
        behind = [f' stroke="{PAPER}" stroke-width="5"'] if halo else []
        for stroke in (*behind, ""):
            self._shapes.append(
                f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" '
                f'text-anchor="{anchor}"{weight}{stroke}>{escape(text)}</text>'
            )

    def line(self, x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="3 4"' if dashed else ""
        self._shapes.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" '
            f'stroke="{PALE}" stroke-width="1"{dashes}/>'
        )

    def arrow(self, path: str, *, dashed: bool = False, colour: str = INK) -> None:
        """``path`` in the language of SVG; the head is at its end."""
        dashes = ' stroke-dasharray="6 4"' if dashed else ""
        head = "fault" if colour == FAULT else "head"
        self._shapes.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{dashes} '
            f'marker-end="url(#{head})"/>'
        )

    def cross(self, x: float, y: float) -> None:
        """Something ends here that should not."""
        self._shapes.append(
            f'<path d="M{x - 7:g} {y - 7:g} L{x + 7:g} {y + 7:g} '
            f'M{x - 7:g} {y + 7:g} L{x + 7:g} {y - 7:g}" '
            f'stroke="{FAULT}" stroke-width="2.5" fill="none"/>'
        )

    def svg(self) -> str:
        width, height = self._size
        heads = "".join(
            f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0 1 L10 5 L0 9 z" fill="{colour}"/></marker>'
            for name, colour in (("head", INK), ("fault", FAULT))
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif">',
                f"<title>{escape(self._title)}</title>",
                f"<defs>{heads}</defs>",
                f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
                *self._shapes,
                "</svg>",
                "",
            ]
        )
