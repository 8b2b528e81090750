class CannotStartError(Exception):
    """The local API can't start; the message says what to do."""
