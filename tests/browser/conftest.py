"""JupyterLab and Chromium for the tests in this folder: one server and one browser a test session, no network."""

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
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
]  # fmt: skip
READY = (
    "() => { const s = window.jupyterapp?.shell?.currentWidget?.sessionContext;"
    " return s?.session?.kernel?.connectionStatus === 'connected' && s.session.kernel.status === 'idle'; }"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/browser" in str(item.path):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    where = shutil.which("chromium") or shutil.which("chromium-browser")
    if where is None:
        pytest.skip("no Chromium here; as root: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=where, args=ARGS)
        yield chromium
        chromium.close()


@dataclass
class Watched:
    """A page, with what went wrong on it."""

    page: Any
    failed: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)

    def clean(self) -> None:
        """No request failed or went outside, no error was written to the console."""
        assert self.failed == []
        assert self.console == []


def watch(page: Any, origin: str) -> Watched:
    """Collect failed and foreign requests and console errors of a page."""
    watched = Watched(page)
    page.on(
        "requestfailed",
        lambda request: (
            watched.failed.append(f"{request.url} {request.failure}")
            if "ERR_ABORTED" not in str(request.failure)
            else None
        ),
    )
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((origin, "data:", "blob:", "ws"))
            else watched.failed.append(f"foreign: {request.url}")
        ),
    )
    page.on(
        "response",
        lambda response: (
            watched.failed.append(f"{response.status} {response.url}") if response.status >= 400 else None
        ),
    )
    page.on(
        "console", lambda message: watched.console.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: watched.console.append(str(error)))
    return watched


@dataclass
class Lab:
    """A running JupyterLab."""

    url: str
    token: str
    root: Path
    browser: Any

    def open(self, notebook: str, *, width: int = 1280, height: int = 1400, dark: bool = False) -> Watched:
        """Open a notebook of the root folder and wait for its kernel."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        watched = watch(context.new_page(), self.url)
        page = watched.page
        page.goto(f"{self.url}/lab/tree/{notebook}?token={self.token}&reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=90_000)
        page.wait_for_function(READY, timeout=90_000)
        return watched

    def run_all(self, watched: Watched) -> None:
        """Run all cells; comes back when they are done."""
        watched.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        watched.page.wait_for_function(READY, timeout=120_000)


def write_notebook(path: Path, *cells: str) -> None:
    """A notebook of code cells."""
    path.write_text(
        json.dumps(
            {
                "cells": [
                    {
                        "cell_type": "code",
                        "id": f"c{n}",
                        "metadata": {},
                        "source": source,
                        "outputs": [],
                        "execution_count": None,
                    }
                    for n, source in enumerate(cells)
                ],
                "metadata": {
                    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
                },
                "nbformat": 4,
                "nbformat_minor": 5,
            }
        )
    )


@pytest.fixture(scope="session")
def lab(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A JupyterLab on a free loopback port, with folders of its own."""
    root = tmp_path_factory.mktemp("lab")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    folders = {
        name: str(tmp_path_factory.mktemp(name.lower()))
        for name in (
            "JUPYTERLAB_SETTINGS_DIR",
            "JUPYTERLAB_WORKSPACES_DIR",
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_RUNTIME_DIR",
            "JUPYTER_DATA_DIR",
            "IPYTHONDIR",
        )
    }
    quiet = Path(folders["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab" / "apputils-extension"
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews":"false","checkForUpdates":false}')
    env = {key: value for key, value in os.environ.items() if not key.startswith("SITOOLKIT_")} | folders
    log = (tmp_path_factory.mktemp("log") / "lab.log").open("wb")
    server = subprocess.Popen(
        [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser", "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}",
        ],
        env=env, stdout=log, stderr=log, start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_for(f"{url}/api/status?token={token}", server)
        yield Lab(url, token, root, browser)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if server.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.3)
