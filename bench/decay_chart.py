"""Draw docs/pictures/decay.svg from the settings' defaults: `python bench/decay_chart.py`. The picture is kept true by running it again."""

from __future__ import annotations

from pathlib import Path

from sitoolkit.settings import DecaySettings
from sitoolkit.views.charts import decay_curves
from sitoolkit.views.theme import chart_svg

TARGET = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "decay.svg"


def main() -> int:
    defaults = DecaySettings()
    TARGET.write_text(chart_svg(decay_curves(defaults.half_life_days, defaults.floor)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
