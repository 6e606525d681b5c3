"""Charts: a frame in, an `alt.Chart` out; counted before drawing, so that any number of rows will do."""

from sitoolkit.views.charts.activity import activity, session_timeline
from sitoolkit.views.charts.failures import friction_heatmap, lesson_effect, signature_pareto
from sitoolkit.views.charts.memory import decay_curves, memory_growth, memory_map, pattern_card, survival
from sitoolkit.views.charts.recall import never_recalled, recall_overview
from sitoolkit.views.charts.review import proposals_funnel, reviewer_throughput, tool_backlog

__all__ = [
    "activity",
    "decay_curves",
    "friction_heatmap",
    "lesson_effect",
    "memory_growth",
    "memory_map",
    "never_recalled",
    "pattern_card",
    "proposals_funnel",
    "recall_overview",
    "reviewer_throughput",
    "session_timeline",
    "signature_pareto",
    "survival",
    "tool_backlog",
]
