"""tau-bench and tau2-bench: runs of a task with messages of OpenAI's shape, a reward and a trial number.

tau-bench (sierra-research/tau-bench, `run.py`): a list of {task_id, trial, reward, info, traj}. tau2-bench
(sierra-research/tau2-bench, `data_model/simulation.py`): {tasks, simulations: [{messages, reward_info, …}]}, or one
{task, simulation_run}. Call ids repeat from turn to turn (seen: 274 calls, 95 ids); tau2 names a result by its call's id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sitoolkit.records import Session
from sitoolkit.transcripts.base import Head, Match, ReadReport, SessionBuilder, TranscriptFile, record_type
from sitoolkit.transcripts.chat import add_messages, usage_of


class _Tau:
    NAME = "tau-bench"
    ALIASES = ("tau",)

    def sniff(self, head: Head) -> Match | None:
        for value in head.dicts[:4]:
            if isinstance(value.get("traj"), list) and "task_id" in value and "reward" in value:
                return Match(1.0, "runs with task_id, reward and traj")
        return None

    def read(self, source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
        seen: dict[str, int] = {}
        for line, run in source.items(report):
            if not isinstance(run, dict) or not isinstance(run.get("traj"), list):
                report.unknown(record_type(run))
                continue
            info = run.get("info")
            info = info if isinstance(info, dict) else {}
            name = f"task{run.get('task_id')}-trial{run.get('trial', 0)}"
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name += f"~{seen[name]}"
            build = SessionBuilder(
                source.file,
                source.session_id(name),
                format=self.NAME,
                line=line,
                **_verdict(run.get("reward")),
            )
            if info.get("error"):
                build.note(f"the run ended in an error: {str(info['error'])[:200]}")
            add_messages(build, run["traj"], report, line)
            yield build.build(task=_task(info.get("task"), run.get("task_id")))


class _Tau2:
    NAME = "tau2-bench"
    ALIASES = ("tau2",)

    def sniff(self, head: Head) -> Match | None:
        for value in head.dicts[:2]:
            if isinstance(value.get("simulation_run"), dict):
                return Match(1.0, "a task with its simulation_run")
            if isinstance(value.get("simulations"), list) and ("tasks" in value or "info" in value):
                return Match(1.0, "tasks and simulations")
            if (
                isinstance(value.get("messages"), list)
                and "termination_reason" in value
                and "reward_info" in value
            ):
                return Match(1.0, "a simulation with termination_reason and reward_info")
        return None

    def read(self, source: TranscriptFile, report: ReadReport) -> Iterator[Session]:
        for line, value in source.items(report):
            if not isinstance(value, dict):
                report.unknown(record_type(value))
                continue
            tasks = {str(task.get("id")): task for task in value.get("tasks") or [] if isinstance(task, dict)}
            if isinstance(value.get("task"), dict):
                tasks[str(value["task"].get("id"))] = value["task"]
            if isinstance(value.get("simulation_run"), dict):
                runs = [value["simulation_run"]]
            elif isinstance(value.get("simulations"), list):
                runs = value["simulations"]
            elif isinstance(value.get("messages"), list):
                runs = [value]
            else:
                report.unknown(record_type(value))
                continue
            model = _llm(value.get("info"))
            for run in runs:
                if isinstance(run, dict) and isinstance(run.get("messages"), list):
                    yield self._session(source, report, run, tasks, model, line)
                else:
                    report.unknown(record_type(run))

    def _session(
        self,
        source: TranscriptFile,
        report: ReadReport,
        run: dict[str, Any],
        tasks: dict[str, Any],
        model: str | None,
        line: int,
    ) -> Session:
        task_id = str(run.get("task_id"))
        name = run.get("id") or source.session_id(f"task{task_id}-trial{run.get('trial', 0)}")
        reward = run.get("reward_info")
        build = SessionBuilder(
            source.file,
            str(name),
            format=self.NAME,
            line=line,
            model=model,
            **_verdict(reward.get("reward") if isinstance(reward, dict) else None),
        )
        messages: list[Any] = []
        for message in run["messages"]:
            parts = message.get("tool_messages") if isinstance(message, dict) else None
            messages.extend(parts if isinstance(parts, list) else [message])
        add_messages(build, messages, report, line)
        for place, message in enumerate(messages):
            if isinstance(message, dict) and message.get("usage"):
                build.usage(f"m{place}", **usage_of(message["usage"]))
        build.usage("cost", cost_usd=run.get("agent_cost"))
        fields: dict[str, Any] = {"task": _task(tasks.get(task_id), task_id)}
        if run.get("start_time"):
            fields["started_at"] = build.time(run["start_time"])
        if run.get("end_time"):
            fields["ended_at"] = build.time(run["end_time"])
        if run.get("termination_reason"):
            build.note(f"ended by {run['termination_reason']}")
        return build.build(**fields)


def _verdict(reward: Any) -> dict[str, Any]:
    if not isinstance(reward, int | float) or isinstance(reward, bool):
        return {}
    return {"reward": float(reward), "outcome": "success" if reward >= 1 else "failure"}


def _task(task: Any, task_id: object) -> str:
    if isinstance(task, dict):
        told = task.get("instruction")
        scenario = task.get("user_scenario")
        if isinstance(scenario, dict):
            instructions = scenario.get("instructions")
            told = instructions.get("reason_for_call") if isinstance(instructions, dict) else instructions
        if isinstance(told, str) and told:
            return told
    return f"task {task_id}"


def _llm(info: Any) -> str | None:
    agent = info.get("agent_info") if isinstance(info, dict) else None
    model = agent.get("llm") if isinstance(agent, dict) else None
    return model if isinstance(model, str) else None


READERS = (_Tau(), _Tau2())
