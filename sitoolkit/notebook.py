"""Sets a notebook up to draw without a network, and hands its result to the runner.

Comes in: where the notebook runs (JupyterLab, headless, elsewhere). Goes out: charts that draw there, one theme, and a small
result that `run_notebook` reads back from the executed notebook.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from sitoolkit.errors import ParameterError
from sitoolkit.plain import as_plain

__all__ = ["RESULT_MIME", "chosen_renderer", "headless", "notebook_result", "notebook_setup", "progress"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
RendererName = Literal["jupyter", "svg", "png", "html"]
RESULT_MIME = "application/vnd.sitoolkit.result+json"
_RENDERERS = ("jupyter", "svg", "png", "html")


def notebook_setup(
    renderer: RendererName | None = None, *, theme: Literal["auto", "light", "dark"] = "auto"
) -> str:
    """Make charts draw here: interactive and offline in JupyterLab, as SVG in a headless run.

    >>> import sitoolkit
    >>> sitoolkit.notebook_setup()            # first line of each notebook
    >>> sitoolkit.notebook_setup("html")      # VS Code and Colab: their own widgets, loads Vega from the network

    Args:
        renderer: `jupyter` (interactive, no network), `svg`, `png` (kept in the file: for GitHub and e-mail), `html` (VS Code, Colab);
            by default what `SITOOLKIT_RENDERER` says, else `jupyter` in a live kernel and `svg` without one.
        theme: colours for a light or a dark page; `auto` follows JupyterLab's setting.

    Returns:
        The renderer that was chosen.

    Raises:
        ParameterError: there is no such renderer.
    """
    import altair as alt

    from sitoolkit.views.theme import enable_theme, svg_bundle

    chosen = chosen_renderer(renderer)
    enable_theme(dark=_lab_is_dark() if theme == "auto" else theme == "dark")
    if chosen == "jupyter":
        # A JupyterChart that is made before the first drawn chart would still load its module from the network.
        alt.JupyterChart.enable_offline()
        alt.renderers.enable("jupyter", offline=True)
    elif chosen == "svg":
        alt.renderers.register("sitoolkit-svg", svg_bundle)
        alt.renderers.enable("sitoolkit-svg")
    elif chosen == "png":
        alt.renderers.enable("png", scale_factor=2)
    else:
        alt.renderers.enable("html")
    return chosen


def chosen_renderer(renderer: str | None = None) -> str:
    """The renderer that `notebook_setup` would use: the argument, else the variable, else by where this runs."""
    chosen = renderer or os.environ.get("SITOOLKIT_RENDERER") or ("jupyter" if _live_kernel() else "svg")
    if chosen not in _RENDERERS:
        raise ParameterError(f"no renderer {chosen!r}; there are {', '.join(_RENDERERS)}")
    return chosen


def headless() -> bool:
    """Whether no person looks at this notebook now: the runner says so in `SITOOLKIT_RENDERER`."""
    return chosen_renderer() in ("svg", "png")


def notebook_result(**counts: Any) -> None:
    """Hand a notebook's result to the runner; the last cell of each notebook calls it.

    >>> notebook_result(patterns_written=3, nothing_to_do=False)

    Args:
        counts: small JSON values; `nothing_to_do=True` makes the run's status say so.
    """
    plain = as_plain(counts)
    words = ", ".join(f"{name.replace('_', ' ')}: {_short(value)}" for name, value in plain.items()) or "done"
    if "IPython" not in sys.modules:
        return
    from IPython.display import display

    display(  # type: ignore[no-untyped-call]
        {RESULT_MIME: plain, "text/plain": words}, raw=True
    )


def progress(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Pass the items on and show how far they are: a bar while a person looks, one log line at the start and the end when headless.

    >>> for session in progress(read_sessions("transcripts"), "sessions"): ...

    Args:
        items: what is worked through.
        label: what they are.
        total: how many, where it is known.
    """
    if _live_kernel() and not headless():
        from tqdm.auto import tqdm

        yield from tqdm(items, desc=label, total=total, leave=False)
        return
    logger.info("%s: begun", label)
    count = 0
    for count, item in enumerate(items, 1):  # noqa: B007 - told at the end
        yield item
    logger.info("%s: %d done", label, count)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "…"


def _live_kernel() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _lab_is_dark() -> bool:
    folder = (
        os.environ.get("JUPYTERLAB_SETTINGS_DIR")
        or Path(os.environ.get("JUPYTER_CONFIG_DIR") or Path.home() / ".jupyter") / "lab" / "user-settings"
    )
    file = Path(folder) / "@jupyterlab" / "apputils-extension" / "themes.jupyterlab-settings"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    found = re.search(r'^\s*"theme"\s*:\s*"([^"]*)"', text, re.MULTILINE)
    return bool(found and "dark" in found[1].lower())
