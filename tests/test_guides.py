"""Guides: what a file may say, who sees it, and what a second import does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitoolkit.errors import NotFoundError, ParameterError
from sitoolkit.guide_files import GuideFileError, read_guide
from sitoolkit.guides import import_guides, list_guides, remove_guide, show_guide
from sitoolkit.models.embedders import HashingEmbedder
from sitoolkit.recall import recall
from sitoolkit.records import Memory, Reader, Status
from sitoolkit.workspace import Workspace

SHIPPED = Path(__file__).resolve().parents[1] / "guides"
GOOD = """\
intent: validate_plan
agent: net
keywords: [ip plan, validate, subnet]
body: |
  Call validate_ip_plan before write_profile.
"""


@pytest.fixture
def ws(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "ws", embedder=HashingEmbedder())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "guides"
    made.mkdir()
    return made


def write(folder: Path, name: str, text: str = GOOD, **replace: str) -> Path:
    for old, new in replace.items():
        text = text.replace(old, new)
    path = folder / f"{name}.guide.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_shipped_guides_are_imported_and_a_second_import_changes_nothing(ws: Workspace) -> None:
    report = import_guides(ws, SHIPPED)
    assert (report.imported, report.invalid) == (5, ())
    before = ws.memory.version
    again = import_guides(ws, SHIPPED)
    assert (again.imported, again.unchanged, again.superseded, again.removed) == (0, 5, 0, 0)
    assert ws.memory.version == before


@pytest.mark.parametrize(
    ("fields", "place", "scope"),
    [
        ("", "a", "agent:net"),
        ("scope: global\n", "a", "global"),
        ("scope: team:sre\n", "a", "team:sre"),
        ("scope: billing\n", "a", "agent:billing"),
        ("", "core/guides/a", "global"),
        ("scope: project:web\n", "core/guides/a", "project:web"),
        ("scope: core\n", "a", "global"),
    ],
)
def test_the_scope_of_a_guide(folder: Path, fields: str, place: str, scope: str) -> None:
    assert read_guide(write(folder, place, fields + GOOD)).scope == scope


def test_agent_core_is_for_all(folder: Path) -> None:
    assert read_guide(write(folder, "a", GOOD.replace("agent: net", "agent: core"))).scope == "global"


@pytest.mark.parametrize(
    ("fields", "weight"),
    [
        ("source_tier: vendor\n", 2.0),
        ("tier: platform\n", 1.6667),
        ("source_tier: team\n", 1.3333),
        ("", 0.8333),
        ("priority: 5\n", 1.1667),
        ("priority: 10\n", 2.0),
        ("source_tier: user\npriority: 10\n", 0.8333),
    ],
)
def test_the_tier_gives_the_weight(folder: Path, fields: str, weight: float) -> None:
    assert read_guide(write(folder, "a", fields + GOOD)).base_weight == weight


BAD = {
    "empty": ("", "empty"),
    "list": ("- a\n- b\n", "not a mapping"),
    "broken": ("intent: [a\n", "not YAML"),
    "no_body": (
        GOOD.replace("body: |\n  Call validate_ip_plan before write_profile.\n", ""),
        "body is missing",
    ),
    "no_agent": (GOOD.replace("agent: net\n", ""), "agent is missing"),
    "bad_intent": (GOOD.replace("validate_plan", "../../etc/passwd"), "is not a name"),
    "spaced": (GOOD.replace("validate_plan", "validate plan"), "is not a name"),
    "bad_tier": (
        "source_tier: king\n" + GOOD,
        "tier 'king' is not known; known: vendor, platform, team, user",
    ),
    "bad_priority": ("priority: 11\n" + GOOD, "priority"),
    "bad_scope": ("scope: 'team:'\n" + GOOD, "not a scope"),
    "keywords_text": (GOOD.replace("[ip plan, validate, subnet]", "subnet"), "keywords"),
    "keywords_none": (GOOD.replace("[ip plan, validate, subnet]", "[]"), "keywords"),
    "unknown": ("colour: red\n" + GOOD, "unknown field 'colour'"),
    "twice": (GOOD + "agent: other\n", "stands twice"),
    "anchor": (GOOD.replace("agent: net", "agent: &a net") + "related: [*a]\n", "anchors and aliases"),
    "bomb": ("a: &a [x, x]\nb: &b [*a, *a]\n", "anchors and aliases"),
    "tag": (GOOD.replace("agent: net", "agent: !!python/object/apply:os.system [id]"), "tags are not read"),
    "deep": ("related: " + "[" * 500 + "]" * 500 + "\n" + GOOD, "nested deeper"),
    "two": (GOOD + "---\n" + GOOD, "more than one document"),
    "future": ("schema_version: 9\n" + GOOD, "schema_version"),
    "long": (GOOD + "  " + "x" * 30_000 + "\n", "body has"),
    "hidden": (GOOD.replace("validate_plan", "hidden_rule").replace("Call", "Call\u202e"), "U+202E"),
}


def test_files_that_are_no_guides_are_named_and_the_others_go_on(ws: Workspace, folder: Path) -> None:
    write(folder, "a_good")
    for name, (text, _) in BAD.items():
        write(folder, f"bad_{name}", text)
    (folder / "bad_bytes.guide.yaml").write_bytes(b"intent: \xff\xfe")
    (folder / "bad_huge.guide.yaml").write_bytes(b"#" * 300_000)
    (folder / "not_a_guide.yaml").write_text("x")
    report = import_guides(ws, folder)
    reasons = {
        fault.file.removeprefix("bad_").removesuffix(".guide.yaml"): fault.reason for fault in report.invalid
    }
    assert report.imported == 1
    assert set(reasons) == {*BAD, "bytes", "huge"}
    for name, (_, said) in BAD.items():
        assert said in reasons[name], name


def test_scalars_are_text_whatever_yaml_makes_of_them(folder: Path) -> None:
    guide = read_guide(
        write(folder, "a", GOOD.replace("[ip plan, validate, subnet]", "[no, on, 1.0, 2026-01-01]"))
    )
    assert guide.keywords == ("no", "on", "1.0", "2026-01-01")


def test_a_second_file_of_the_same_intent_and_agent_is_named(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    write(folder, "b", GOOD.replace("before write_profile", "after lunch"))
    report = import_guides(ws, folder)
    assert report.imported == 1
    assert report.invalid[0].reason == "intent 'validate_plan' of agent 'net' stands in a.guide.yaml too"


def test_the_reader_of_its_scope_gets_the_directive_and_no_other(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    import_guides(ws, folder)
    [item] = recall(ws, "validate_ip_plan before write_profile", Reader(agent="net"), k=1).items
    assert (item.slot, item.text, item.confidence) == (
        "directive",
        "Call validate_ip_plan before write_profile.",
        1.0,
    )
    assert recall(ws, "validate_ip_plan before write_profile", Reader(agent="ops")).abstained
    assert recall(ws, "subnet", Reader(agent="net")).items  # by its keywords, which are not in the text


def test_a_changed_file_supersedes_and_changing_back_does_too(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    import_guides(ws, folder)
    first = show_guide(ws, "validate_plan")
    write(folder, "a", GOOD.replace("before write_profile", "twice"))
    report = import_guides(ws, folder)
    assert (report.imported, report.superseded) == (1, 1)
    second = show_guide(ws, "validate_plan")
    assert second.supersedes == first.id
    assert ws.memory.get(first.id).status == Status.SUPERSEDED  # type: ignore[union-attr]
    write(folder, "a")
    import_guides(ws, folder)
    assert show_guide(ws, "validate_plan").text == first.text
    assert len(list_guides(ws)) == 1
    write(folder, "a", "tier: vendor\n" + GOOD)
    assert import_guides(ws, folder).superseded == 1
    assert show_guide(ws, "validate_plan").base_weight == 2.0


def test_a_removed_file_is_retired_and_another_folders_guides_are_not(ws: Workspace, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write(one, "a")
    write(two, "b", GOOD.replace("validate_plan", "other_rule"))
    import_guides(ws, one)
    import_guides(ws, two)
    draft = Memory(
        category="usage_guide",
        scope="agent:net",
        text="approved by a person",
        origin="directive",
        slot="guide:net:draft",
    )
    ws.memory.upsert([draft], run_id="review")
    (one / "a.guide.yaml").unlink()
    report = import_guides(ws, one)
    assert (report.removed, report.guides[0].reason) == (1, "its guide file is gone")
    assert {memory.slot for memory in list_guides(ws)} == {"guide:net:other_rule", "guide:net:draft"}
    assert import_guides(ws, one).removed == 0


def test_a_file_with_a_slip_in_it_keeps_its_guide(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    import_guides(ws, folder)
    write(folder, "a", "intent: [\n")
    report = import_guides(ws, folder)
    assert (report.removed, len(report.invalid)) == (0, 1)
    assert list_guides(ws)


def test_a_guide_whose_scope_changed_leaves_the_old_scope(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    import_guides(ws, folder)
    write(folder, "a", "scope: global\n" + GOOD)
    report = import_guides(ws, folder)
    assert (report.imported, report.removed) == (1, 1)
    assert [str(memory.scope) for memory in list_guides(ws)] == ["global"]


def test_a_guide_that_a_person_removed_stays_out_until_its_text_changes(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    import_guides(ws, folder)
    removed = remove_guide(ws, "validate_plan", "the tool is gone", by="kim")
    assert (removed.status, removed.reason) == (Status.RETIRED, "the tool is gone")
    assert import_guides(ws, folder).suppressed == 1
    assert not list_guides(ws)
    write(folder, "a", GOOD.replace("Call", "Always call"))
    assert import_guides(ws, folder).imported == 1


def test_a_tombstone_beside_the_file_keeps_it_out(ws: Workspace, folder: Path) -> None:
    path = write(folder, "a")
    import_guides(ws, folder)
    (folder / (path.name + ".removed")).touch()
    assert import_guides(ws, folder).removed == 1


def test_removing_needs_a_reason_and_one_guide(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    write(folder, "b", GOOD.replace("agent: net", "agent: ops"))
    import_guides(ws, folder)
    with pytest.raises(ParameterError, match="reason"):
        remove_guide(ws, "validate_plan", "  ", agent="net")
    with pytest.raises(ParameterError, match="--agent"):
        remove_guide(ws, "validate_plan", "old")
    with pytest.raises(NotFoundError):
        remove_guide(ws, "nothing", "old")
    remove_guide(ws, "validate_plan", "old", agent="net")
    assert show_guide(ws, "validate_plan").payload["agent"] == "ops"


def test_a_secret_in_a_guide_is_redacted_and_counted(ws: Workspace, folder: Path) -> None:
    write(folder, "a", GOOD.replace("Call", "Use ghp_" + "a1B2" * 9 + " and call"))
    report = import_guides(ws, folder)
    assert sum(report.redactions.values()) == 1
    assert "ghp_" not in show_guide(ws, "validate_plan").text


def test_links_that_lead_outside_and_hidden_folders_are_left_alone(
    ws: Workspace, folder: Path, tmp_path: Path
) -> None:
    outside = write(tmp_path / "outside", "x")
    (folder / "link.guide.yaml").symlink_to(outside)
    write(folder, ".hidden/y")
    assert import_guides(ws, folder).imported == 0


def test_a_folder_that_is_not_there_is_an_error_and_retires_nothing(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    import_guides(ws, folder)
    with pytest.raises(ParameterError):
        import_guides(ws, folder / "nowhere")
    assert list_guides(ws)


def test_an_import_can_be_undone(ws: Workspace, folder: Path) -> None:
    write(folder, "a")
    import_guides(ws, folder)
    write(folder, "a", GOOD.replace("before write_profile", "twice"))
    run = import_guides(ws, folder).run_id
    ws.memory.undo(run)
    assert show_guide(ws, "validate_plan").text == "Call validate_ip_plan before write_profile."


def test_reading_one_file_says_why_it_is_none(folder: Path) -> None:
    with pytest.raises(GuideFileError, match="not readable"):
        read_guide(folder / "absent.guide.yaml")
