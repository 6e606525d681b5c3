"""Tools made from evidence: what is recorded of a failure, the recipes that settle one, and the replay that judges them."""

from sitoolkit.recipes.cases import Refusal
from sitoolkit.recipes.design import OUTPUT_SCHEMA, RECIPES, Design, design_tool
from sitoolkit.recipes.evidence import Evidence, Failure, gather
from sitoolkit.recipes.replay import RecordedWorld, Verdict, replay_case, replay_without
from sitoolkit.recipes.trial import Trial, try_design

__all__ = [
    "OUTPUT_SCHEMA",
    "RECIPES",
    "Design",
    "Evidence",
    "Failure",
    "RecordedWorld",
    "Refusal",
    "Trial",
    "Verdict",
    "design_tool",
    "gather",
    "replay_case",
    "replay_without",
    "try_design",
]
