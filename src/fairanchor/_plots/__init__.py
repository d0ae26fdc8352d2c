"""Figures: one module per question; `fairanchor.plotting` is the public door."""
