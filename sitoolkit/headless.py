"""Executes a notebook by papermill in a thread, so that a deadline or a signal can end the kernel: in a notebook, out its result.

The kernel is this Python, over a socket file (no port is opened where the system has such files). Papermill's own status is not
trusted: after a time-out, a signal or a dead kernel it calls the cells completed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sitoolkit.attended import UNATTENDED_VARIABLE
from sitoolkit.notebook import RESULT_MIME

if TYPE_CHECKING:
    from sitoolkit.redaction import Redactor

__all__ = ["CellFailed", "Executed", "KernelDied", "execute", "export_html"]

_GRACE_S = 5.0  # between asking a kernel to stop and ending it: long enough to let a batch of writes finish


class CellFailed(Exception):
    """A cell raised: which, and what."""

    def __init__(self, cell_index: int, ename: str, evalue: str) -> None:
        super().__init__(f"cell {cell_index}: {ename}: {evalue}")
        self.cell_index, self.ename, self.evalue = cell_index, ename, evalue


class KernelDied(Exception):
    """The kernel ended by itself, or did not start."""


@dataclass
class Executed:
    """What came of a notebook that ran to its end."""

    counts: dict[str, Any] = field(default_factory=dict)
    """What `notebook_result` was given."""


def execute(
    notebook: Path,
    output: Path,
    parameters: Mapping[str, Any],
    *,
    log_file: Path,
    environ: Mapping[str, str],
    deadline: float | None = None,
) -> Executed:
    """Run all cells; the executed notebook is saved to `output` after each of them.

    Args:
        notebook: the file to run; it is not changed.
        output: where the executed copy goes.
        parameters: checked values for its parameters cell.
        log_file: gets one line a cell and what the cells print.
        environ: variables for the kernel, beside this process's own.
        deadline: `time.monotonic()` at which the kernel is stopped.

    Raises:
        CellFailed: a cell raised.
        KernelDied: the kernel ended or did not start.
        TimeoutError: the deadline passed.
    """
    kernels: list[Any] = []
    box: dict[str, Any] = {}
    folder = Path(
        tempfile.mkdtemp(prefix="sit-")
    )  # short: the path of a socket has at most some hundred bytes

    def work() -> None:
        try:
            with log_file.open("a", encoding="utf-8") as log:
                box["notebook"] = _papermill(
                    notebook, output, dict(parameters), kernels, folder, dict(environ), log
                )
        except BaseException as error:  # noqa: BLE001 - carried to the caller's thread below
            box["error"] = error
        finally:
            _close_loop()

    with _log_to(log_file):
        thread = threading.Thread(target=work, name=f"papermill {notebook.stem}", daemon=True)
        try:
            thread.start()
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            thread.join(left)
            if thread.is_alive():
                _end(thread, kernels)
                raise TimeoutError(f"{notebook.stem} is over its deadline")
        except BaseException:  # a signal of the caller: the kernel must not outlive the run
            if thread.is_alive():
                _end(thread, kernels)
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    error = box.get("error")
    if error is None:
        return Executed(counts=_result_of(box["notebook"]))
    name = type(error).__name__
    if name == "PapermillExecutionError":
        raise CellFailed(error.cell_index, error.ename, error.evalue) from error
    if name in ("DeadKernelError", "RuntimeError"):
        raise KernelDied(str(error)) from error
    raise error


def _papermill(
    notebook: Path,
    output: Path,
    parameters: dict[str, Any],
    kernels: list[Any],
    folder: Path,
    environ: dict[str, str],
    log: IO[str],
) -> Any:
    import papermill
    from jupyter_client.manager import AsyncKernelManager
    from traitlets.config import Config

    class OwnKernel(AsyncKernelManager):
        """This Python, whatever kernels are registered for the user; its variables; known to the runner."""

        def format_kernel_cmd(self, extra_arguments: list[str] | None = None) -> list[str]:
            return [
                sys.executable,
                "-m",
                "ipykernel_launcher",
                "-f",
                self.connection_file,
                *(extra_arguments or []),
            ]

        async def start_kernel(self, **kw: Any) -> None:  # type: ignore[override]
            kw.setdefault("env", {**os.environ, UNATTENDED_VARIABLE: "a headless notebook", **environ})
            kw.setdefault("stdout", log)  # what the kernel's own parts say, before and after the cells
            kw.setdefault("stderr", log)
            kernels.append(self)
            await AsyncKernelManager._async_start_kernel(self, **kw)

    config = Config()
    config.KernelManager.connection_file = str(folder / "k.json")
    if os.name == "posix":
        config.KernelManager.transport = "ipc"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of jupyter's own parts, about each other
        return papermill.execute_notebook(
            str(notebook),
            str(output),
            parameters=parameters,
            kernel_name="python3",
            progress_bar=sys.stderr.isatty(),
            log_output=True,
            start_timeout=120,
            kernel_manager_class=OwnKernel,
            config=config,
        )


def _close_loop() -> None:
    """Jupyter makes an event loop for each thread and leaves it open with its sockets."""
    from jupyter_core.utils import ensure_event_loop

    with suppress(RuntimeError):  # one that still runs belongs to someone else
        ensure_event_loop().close()


def _end(thread: threading.Thread, kernels: list[Any]) -> None:
    """Stop a kernel: first as Ctrl+C does, so that it lets go of its locks, then for good."""
    for how, wait in ((signal.SIGINT, _GRACE_S), (getattr(signal, "SIGKILL", signal.SIGTERM), 10.0)):
        for kernel in kernels:
            process = getattr(getattr(kernel, "provisioner", None), "process", None)
            if process is not None and process.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    if hasattr(os, "killpg"):
                        os.killpg(process.pid, how)  # jupyter starts each kernel in a group of its own
                    else:
                        process.send_signal(how)
        thread.join(wait)
        if not thread.is_alive():
            return


@contextmanager
def _log_to(file: Path) -> Iterator[None]:
    log = logging.getLogger("papermill")
    handler = logging.FileHandler(file, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level, propagate = log.level, log.propagate
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagate
        handler.close()


def _result_of(notebook: Any) -> dict[str, Any]:
    for cell in reversed(notebook.cells):
        for output in reversed(cell.get("outputs", [])):
            data = output.get("data", {}).get(RESULT_MIME)
            if data is not None:
                return dict(data)
    return {}


def export_html(
    notebook: Path, page: Path, *, title: str, beside: Path | None = None, redactor: Redactor | None = None
) -> None:
    """Write an executed notebook as one HTML page without code and without anything that loads from elsewhere.

    Args:
        notebook: the executed notebook.
        page: where the page goes.
        title: of the page.
        beside: the folder of the source notebook, in which the pictures lie that it names.
        redactor: a last look for secrets; what it finds is replaced.
    """
    import nbformat
    from nbconvert import HTMLExporter

    from sitoolkit.views.page import plain_page

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nbconvert, about its own templates
        exporter = HTMLExporter(  # type: ignore[no-untyped-call]
            template_name="basic",  # the cells alone: the whole page of nbconvert names four other hosts
            exclude_input=True,
            exclude_input_prompt=True,
            exclude_output_prompt=True,
            exclude_anchor_links=True,
            embed_images=True,
        )
        body, _ = exporter.from_notebook_node(
            nbformat.read(notebook, as_version=4),  # type: ignore[no-untyped-call]
            resources={"metadata": {"name": title, "path": str(beside or notebook.parent)}},
        )
    body = re.sub(
        r'<a href="[^"]*\.ipynb">(.*?)</a>', r"\1", body
    )  # the other notebooks do not lie beside the page
    if redactor is not None:
        body = redactor.text(body)[0]
    page.write_text(plain_page(title, body), encoding="utf-8")
