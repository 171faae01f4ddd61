"""What the runs of ``tailmiss.figures.training.study`` measured, as CSV, and what made it."""
