"""The keyboard of the review panel: an invisible widget that sends single keys to Python and keeps them from the notebook.

It marks the panel so that JupyterLab's own shortcuts do not see its keys, leaves inputs alone, ignores held keys, and holds
the live region in which a screen reader hears what was done.
"""

from __future__ import annotations

import anywidget
import traitlets

__all__ = ["PANEL_CLASS", "PanelKeys"]

PANEL_CLASS = "sit-review"

_SCRIPT = """
function render({ model, el }) {
  const live = document.createElement("div");
  live.setAttribute("role", "status");
  live.setAttribute("aria-live", "polite");
  live.className = "sit-live";
  el.appendChild(live);
  const say = () => { live.textContent = model.get("message"); };
  model.on("change:message", say);
  say();

  let panel = null;
  const onKey = (event) => {
    const field = event.target.closest("input, textarea, select, [contenteditable]");
    const named = (event.ctrlKey || event.metaKey) && event.key === "Enter" ? "ctrl+enter"
      : (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !field ? "u"
      : event.key === "Escape" ? "escape" : event.key;
    const always = named === "ctrl+enter" || named === "escape";
    if (field && !always) return;
    if (event.ctrlKey || event.metaKey || event.altKey) { if (!always && named !== "u") return; }
    if (!model.get("hotkeys").includes(named)) return;
    if (named === "Enter" && event.target.closest("button, summary, a")) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.repeat && !["j", "k", "ArrowDown", "ArrowUp"].includes(named)) return;
    if (named === "escape" || named === "ctrl+enter") panel.focus({ preventScroll: true });
    model.send({ key: named });
  };
  const attach = () => {
    panel = el.closest(".sit-review");
    if (!panel) return false;
    panel.dataset.lmSuppressShortcuts = "true";
    panel.tabIndex = 0;
    panel.setAttribute("role", "region");
    panel.setAttribute("aria-label", "Proposal review");
    panel.addEventListener("keydown", onKey, true);  // before a field of ipywidgets stops it
    panel.addEventListener("mousedown", (event) => {
      if (!event.target.closest("input, textarea, select, button, summary, a")) panel.focus({ preventScroll: true });
    });
    return true;
  };
  if (!attach()) {
    const observer = new MutationObserver(() => { if (attach()) observer.disconnect(); });
    observer.observe(document.body, { childList: true, subtree: true });
  }
  const focus = () => {
    const wanted = panel && panel.querySelector(model.get("focus_on") || "___");
    const field = wanted && wanted.querySelector("textarea, input, select");
    if (field) field.focus(); else if (panel) panel.focus({ preventScroll: true });
  };
  model.on("change:focus_count", focus);
  return () => { if (panel) panel.removeEventListener("keydown", onKey, true); };
}
export default { render };
"""

_STYLE = """
.sit-review { padding: 8px; border: 1px solid var(--jp-border-color2, #c9ced6); border-radius: 6px; }
.sit-review:focus { outline: 2px solid var(--jp-brand-color1, #1b6ac9); outline-offset: 1px; }
.sit-review :is(button, input, select, textarea):focus-visible { outline: 2px solid var(--jp-brand-color1, #1b6ac9); outline-offset: 1px; }
.sit-review .sit-title { font-size: 15px; font-weight: 600; white-space: normal; line-height: 1.35; height: auto; }
.sit-review .sit-wrap { white-space: pre-wrap; line-height: 1.4; height: auto; overflow-wrap: anywhere; }
.sit-review .sit-error { color: var(--jp-error-color0, #a1260d); font-weight: 600; white-space: pre-wrap; height: auto; }
.sit-review .sit-warn { color: var(--jp-warn-color0, #8a5300); font-weight: 600; white-space: pre-wrap; height: auto; }
.sit-review textarea { font-family: var(--jp-code-font-family, monospace); font-size: 13px; line-height: 1.45; }
.sit-review .sit-list, .sit-review .sit-text { display: flex; flex-direction: column; align-items: stretch; width: auto; margin: 2px; }
.sit-review .sit-list > label, .sit-review .sit-text > label { width: auto; text-align: left; }
.sit-review .sit-list select { font-size: 13px; height: 260px; max-width: 100%; }
.sit-review .sit-text textarea { min-height: 130px; max-width: 100%; box-sizing: border-box; }
.sit-review .widget-label { white-space: normal; height: auto; line-height: 1.4; }
.sit-review ins { text-decoration: underline; background: color-mix(in srgb, #1a9850 22%, transparent); color: inherit; }
.sit-review del { background: color-mix(in srgb, #d6604d 22%, transparent); color: inherit; }
.sit-review pre.sit-diff { white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0; font-size: 13px; line-height: 1.45; color: var(--jp-ui-font-color1, inherit); }
.sit-live { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""


class PanelKeys(anywidget.AnyWidget):
    """Sends `{"key": …}` for each key of `hotkeys` that is pressed while the panel has the focus, outside of inputs."""

    _esm = _SCRIPT
    _css = _STYLE
    hotkeys = traitlets.List(traitlets.Unicode()).tag(sync=True)
    message = traitlets.Unicode("").tag(sync=True)  # what a screen reader says
    focus_on = traitlets.Unicode("").tag(
        sync=True
    )  # a CSS class to put the focus in; empty: the panel itself
    focus_count = traitlets.Int(0).tag(sync=True)

    def focus(self, css_class: str = "") -> None:
        """Put the keyboard focus into a part of the panel."""
        self.focus_on = f".{css_class}" if css_class else ""
        self.focus_count += 1
