"""What a person sees: charts, tables, rich displays, the nightly report and the review panel."""
