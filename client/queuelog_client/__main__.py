"""python -m queuelog_client: the command line, where its script is not on the PATH."""

from queuelog_client.cli import main

main()
