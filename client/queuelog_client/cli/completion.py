from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what a shell needs to complete commands and options.

    \b
    bash: eval "$(queuelog completion bash)"           in ~/.bashrc
    zsh:  eval "$(queuelog completion zsh)"            in ~/.zshrc
    fish: queuelog completion fish > ~/.config/fish/completions/queuelog.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click has no completion for {shell}.")
    # The class's own source() starts a bash to ask for its version.
    click.echo(ShellComplete.source(found(context.find_root().command, {}, "queuelog", "_QUEUELOG_COMPLETE")))
