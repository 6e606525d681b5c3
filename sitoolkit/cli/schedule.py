"""`sitoolkit schedule print`: goes out the text of a timer for the nightly run; installs nothing."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sitoolkit.cli.common import emit, group, json_option, with_workspace

if TYPE_CHECKING:
    from sitoolkit.workspace import Workspace

__all__ = ["schedule"]

schedule = group(
    "schedule",
    help="The nightly run on a timer: prints what to install, installs nothing.",
    examples="""
    sitoolkit schedule print --kind systemd --at 02:30
    sitoolkit schedule print --kind cron | crontab -
    """,
)

_CRON = """\
# sitoolkit, every night at {hour:02d}:{minute:02d} in {zone}. Overlap is safe: a second run records that it was skipped (exit code 3).
CRON_TZ={zone}
{minute} {hour} * * * {command} >>{log} 2>&1 || {doctor} >>{log} 2>&1
"""
_SYSTEMD = """\
# ~/.config/systemd/user/sitoolkit-nightly.service
[Unit]
Description=sitoolkit nightly run
[Service]
Type=oneshot
ExecStart={command}
# 3: another run held the workspace, and said so
SuccessExitStatus=3
Nice=10
TimeoutStartSec={limit}

# ~/.config/systemd/user/sitoolkit-nightly.timer
[Unit]
Description=sitoolkit every night
[Timer]
OnCalendar=*-*-* {hour:02d}:{minute:02d}:00 {zone}
# a night that the machine slept through is made up for
Persistent=true
RandomizedDelaySec=120
[Install]
WantedBy=timers.target

# then: systemctl --user daemon-reload && systemctl --user enable --now sitoolkit-nightly.timer
"""
_AIRFLOW = """\
# dags/sitoolkit_nightly.py
import pendulum
from airflow.decorators import dag
from airflow.operators.bash import BashOperator


@dag(
    schedule="{minute} {hour} * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="{zone}"),
    catchup=False,
    max_active_runs=1,
)
def sitoolkit_nightly():
    BashOperator(
        task_id="nightly",
        bash_command={command!r},
        skip_on_exit_code=3,  # another run held the workspace, and said so
        retries=1,
    )


sitoolkit_nightly()
"""
_TEXTS = {"cron": _CRON, "systemd": _SYSTEMD, "airflow": _AIRFLOW}


def _clock_time(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    hour, _, minute = value.partition(":")
    if not (hour.isdigit() and minute.isdigit() and int(hour) < 24 and int(minute) < 60):
        raise click.BadParameter(f"{value!r} is not HH:MM")
    return int(hour), int(minute)


def _zone(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise click.BadParameter(f"no time zone {value!r}; for example UTC or Europe/Berlin") from error
    return value


@schedule.command("print", examples="sitoolkit schedule print --kind cron --at 02:30 --zone Europe/Berlin")
@with_workspace
@click.option("--kind", type=click.Choice(["cron", "systemd", "airflow"]), default="cron", show_default=True)
@click.option(
    "--at",
    callback=_clock_time,
    default="02:30",
    show_default=True,
    metavar="HH:MM",
    help="When, each night.",
)
@click.option("--zone", callback=_zone, default="UTC", show_default=True, help="In which time zone.")
@json_option
def print_(ws: Workspace, kind: str, at: tuple[int, int], zone: str, as_json: bool) -> None:
    """Print a cron line, a systemd timer or an Airflow DAG that runs `sitoolkit nightly`."""
    program = Path(sys.executable).with_name("sitoolkit")
    words = [str(program)] if program.is_file() else [sys.executable, "-m", "sitoolkit.cli"]
    place = ["--workspace", str(ws.path)]
    text = _TEXTS[kind].format(
        command=shlex.join([*words, "nightly", *place]).replace(
            "%", r"\%" if kind == "cron" else "%%" if kind == "systemd" else "%"
        ),
        doctor=shlex.join([*words, "runs", "doctor", *place]),
        log=shlex.quote(str(ws.path / "nightly.log")),
        limit=int(ws.settings.nightly.deadline_minutes * 60) + 60,
        hour=at[0],
        minute=at[1],
        zone=zone,
    )
    emit({"kind": kind, "text": text}, as_json, text.rstrip("\n"))
