"""The paper's tables and figures, run again beside what was published.

``fairanchor reproduce`` is the way in. The parts, in the order of the work: `_data` (the five
datasets), `_cells` (what one fit is), `_plan` (which fits a table or figure needs), `_measure` and
`_isolated` (one fit, in this or in a process of its own), `_run` (all of them, resumable),
`_choose` (hyper-parameters from a grid), `_records` (results as a flat list), `_tables`,
`_figures` and `_page` (what a reader sees).
"""
