"""The errors of nanobot, one tree.

NanobotError
├── UsageError                what a person can mend: exit code 2, no traceback
│   ├── ConfigError           names file, key and remedy
│   ├── StateLocked           another gateway runs on this state
│   ├── StateDamaged          the database cannot be opened
│   ├── StateSealed           the state is encrypted, and the key is not here
│   ├── PortTaken
│   └── MissingExtra          pip install 'nanobot[…]'
├── StoreError
│   ├── StoreFull             disk full: the message was not accepted
│   └── LeaseLost             another owner has the session
├── DeadlineExceeded          something outside took too long
├── ModelError
├── ToolError                 goes back to the model as a result
│   ├── Refused               security said no
│   └── BadArguments
└── ChannelError
    ├── Unreachable           nobody is there now: wait until the channel says so
    ├── RetryLater            with seconds, as the platform asked
    ├── Undeliverable         never: dead letter
    └── ChannelDown           cannot start or was cut off; with a remedy
"""


class NanobotError(Exception):
    """Something nanobot knows by name went wrong."""


class UsageError(NanobotError):
    """What a person can mend; the message says how."""


class ConfigError(UsageError):
    """The configuration cannot be used; the message names file, key and remedy."""


class StateLocked(UsageError):
    """Another gateway runs on this state directory."""


class StateDamaged(UsageError):
    """The database cannot be opened; the message says where its bytes are and what to do."""


class StateSealed(UsageError):
    """The state is encrypted and cannot be opened with what is here; the message holds the remedy."""


class PortTaken(UsageError):
    """The address to listen on is in use."""


class MissingExtra(UsageError):
    """A feature's libraries are not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs more libraries: pip install 'nanobot[{extra}]'")
        self.extra = extra


class StoreError(NanobotError):
    """The store could not do what was asked; nothing was changed."""


class StoreFull(StoreError):
    """The disk is full: nothing was accepted, so nothing may be acknowledged."""


class LeaseLost(StoreError):
    """The session belongs to another owner now; this one must stop at once."""


class DeadlineExceeded(NanobotError):
    """Something outside did not answer in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what} did not finish within {seconds:g} s")
        self.what = what
        self.seconds = seconds


class ModelError(NanobotError):
    """No model could answer."""


class ToolError(NanobotError):
    """A tool could not do its work; the text goes back to the model. `hint` says what to try instead."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nHint: {hint}" if hint else message)


class Refused(ToolError):
    """Security does not allow this."""


class BadArguments(ToolError):
    """The arguments do not fit the tool's schema."""


class ChannelError(NanobotError):
    """A channel could not do what was asked."""


class Unreachable(ChannelError):
    """Nobody is at this address now; delivery waits until the channel reports it reachable."""


class RetryLater(ChannelError):
    """The platform asked to wait. Nothing was posted."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"retry in {seconds:g} s")
        self.seconds = seconds


class Undeliverable(ChannelError):
    """This message can never be delivered; it becomes a dead letter."""


class ChannelDown(ChannelError):
    """The channel cannot work; the message holds the remedy."""
