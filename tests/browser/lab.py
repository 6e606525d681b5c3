"""A real JupyterLab in a real headless Chromium, with no way out: comes in a folder, goes out pages that can be pressed and looked at.

Every request that is not for this machine is refused and remembered, so that a test can say "no failed request". Chromium is Debian's;
where it is not installed the tests skip and say so.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

READY = (
    "()=>{const s=window.jupyterapp?.shell?.currentWidget?.sessionContext;"
    "return s?.session?.kernel?.connectionStatus==='connected' && s.session.kernel.status==='idle'}"
)
FLAGS = [
    "--no-sandbox",  # tests may run as root in a container
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
]
_LOCAL = ("http://127.0.0.1", "ws://127.0.0.1", "file://", "data:", "blob:")
# What the browser or Lab says of itself, and no fault of a page.
_HARMLESS = ("Download the React DevTools", "ResizeObserver loop", "[LSP]")


def chromium_path() -> str:
    """Debian's Chromium; skips the test where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium")
    return path


@dataclass
class Watched:
    """A page and what went wrong on it."""

    page: Any
    failed: list[str] = field(default_factory=list)
    """Requests that failed, or that asked another machine."""
    errors: list[str] = field(default_factory=list)
    """Errors of the console and of scripts."""

    def assert_clean(self) -> None:
        """No failed request, no request to another machine, no error."""
        assert self.failed == []
        assert self.errors == []


@contextmanager
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    with sync_playwright() as play:
        running = play.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield running
        finally:
            running.close()


def watched_page(
    running: Any, *, width: int = 1280, height: int = 900, dark: bool = False, scale: float = 1.0
) -> Watched:
    """A new page that lets no request out of this machine and writes down what fails."""
    context = running.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        device_scale_factor=scale,
        reduced_motion="reduce",
    )
    watched = Watched(context.new_page())

    def guard(route: Any) -> None:
        if route.request.url.startswith(_LOCAL):
            route.continue_()
        else:
            watched.failed.append(f"asked another machine: {route.request.url}")
            route.abort()

    context.route("**/*", guard)
    page = watched.page
    page.on("requestfailed", lambda request: _note_failed(watched, request))
    page.on(
        "response",
        lambda answer: (
            watched.failed.append(f"{answer.status} {answer.url}") if answer.status >= 500 else None
        ),
    )
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on("console", lambda message: _note_console(watched, message))
    page.set_default_timeout(90_000)
    return watched


def _note_failed(watched: Watched, request: Any) -> None:
    if request.failure != "net::ERR_ABORTED":  # a navigation that replaced another
        watched.failed.append(f"{request.failure} {request.url}")


def _note_console(watched: Watched, message: Any) -> None:
    if message.type == "error" and not any(harmless in message.text for harmless in _HARMLESS):
        watched.errors.append(f"{message.text} ({message.location.get('url', '')})")


@dataclass
class Lab:
    """A running JupyterLab."""

    url: str
    token: str
    root: Path

    def open(self, watched: Watched, notebook: str) -> None:
        """Open a notebook below the root and wait for its kernel."""
        watched.page.goto(f"{self.url}/lab/tree/{notebook}?token={self.token}&reset")
        watched.page.wait_for_selector(".jp-Notebook .jp-Cell")
        watched.page.wait_for_function(READY)

    def run_all(self, watched: Watched) -> None:
        """Run all cells; returns when they are done. A cell that failed fails the test."""
        watched.page.evaluate("()=>window.jupyterapp.commands.execute('notebook:run-all-cells')")
        watched.page.wait_for_function(READY)
        failed = watched.page.locator(
            '[data-mime-type="application/vnd.jupyter.error"], .jp-RenderedText[data-mime-type*="stderr"] .ansi-red-fg'
        )
        assert failed.count() == 0, failed.first.inner_text()

    def tidy(self, watched: Watched) -> None:
        """Close the side bar, so that pictures show the notebook."""
        watched.page.evaluate("()=>window.jupyterapp.shell.collapseLeft()")
        watched.page.wait_for_timeout(300)


@contextmanager
def lab(root: Path, workspace: Path, *, dark: bool = False) -> Iterator[Lab]:
    """JupyterLab over a folder, with settings of its own and `SITOOLKIT_HOME` at the workspace."""
    state = root / ".lab"
    settings = state / "settings"
    for name, value in {
        "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
            "fetchNews": "false",
            "checkForUpdates": False,
        },
        "@jupyterlab/apputils-extension/themes.jupyterlab-settings": {
            "theme": "JupyterLab Dark" if dark else "JupyterLab Light"
        },
        "@jupyterlab/notebook-extension/tracker.jupyterlab-settings": {"windowingMode": "none"},
    }.items():
        file = settings / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    environ = {
        **os.environ,
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "JUPYTERLAB_WORKSPACES_DIR": str(state / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(state / "config"),
        "JUPYTER_RUNTIME_DIR": str(state / "run"),
        "IPYTHONDIR": str(state / "ipython"),
        "SITOOLKIT_HOME": str(workspace),
    }
    environ.pop("SITOOLKIT_RENDERER", None)
    log = (root / "lab.log").open("w")
    server = subprocess.Popen(
        [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser", "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}",
        ],
        env=environ, stdout=log, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        _wait_for(port, server, root / "lab.log")
        yield Lab(f"http://127.0.0.1:{port}", token, root)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            raise AssertionError(f"JupyterLab ended: {log.read_text()[-2000:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"JupyterLab did not answer: {log.read_text()[-2000:]}")
