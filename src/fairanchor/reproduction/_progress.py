"""Progress of a run: a bar on a terminal, a line per stage elsewhere."""

import click

from fairanchor.reproduction._run import Silent


class Lines(Silent):
    """One line when a stage begins, and one for every run that has no result."""

    def begin(self, title, total):
        click.echo(f"{title}: {total} fits to do", err=True)

    def advance(self, cell, result):
        if result["status"] != "done":
            click.echo(f"  {cell.title()}: {result['status']}, {result['message']}", err=True)


class Bar(Silent):
    """A bar on stderr, with the time that is left; runs without a result are printed above it."""

    def __init__(self):
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            *Progress.get_default_columns()[:2],
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[last]}"),
            console=Console(stderr=True),
        )
        self._task = None

    def begin(self, title, total):
        self._task = self._progress.add_task(title, total=total, last="")
        self._progress.start()

    def advance(self, cell, result):
        if result["status"] != "done":
            text = f"{cell.title()}: {result['status']}, {result['message']}"
            self._progress.console.print(text, markup=False, highlight=False)
        self._progress.update(self._task, advance=1, last=cell.title())

    def end(self):
        self._progress.stop()
