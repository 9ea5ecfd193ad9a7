"""What happens when, made from a seed alone: which chat says what, and what fails for how long. No I/O."""

import random
import re
from collections.abc import Mapping, Sequence

import msgspec

MARK = re.compile(r"\bm\d{6}\b")

# fault → its weight, and the seconds it lasts (0, 0: a moment)
GATEWAY: Mapping[str, tuple[float, float, float]] = {
    "kill": (8, 0, 0),
    "kill while starting": (3, 0.02, 0.9),  # seconds after exec; a start takes about one
    "SIGTERM": (3, 0, 0),
    "SIGTERM, then kill": (2, 0.01, 1.5),
    "freeze": (3, 0.3, 4.0),
}
WORLD: Mapping[str, tuple[float, float, float]] = {
    "model hangs": (2, 1.0, 5.0),
    "model answers 500": (2, 0.5, 3.0),
    "model answers 429": (2, 0.5, 3.0),
    "model cuts streams": (2, 0.5, 3.0),
    "model is down": (2, 0.5, 3.0),
    "disk full": (3, 0.5, 3.0),
    "clock jumps": (2, -1200.0, 1200.0),  # by so many seconds; not undone, but for the end of the run
}
PLATFORM = (1.5, 0.3, 4.0)  # of each fault that a platform offers

# kind of message → weight
KINDS: Mapping[str, float] = {
    "plain": 51,
    "slow": 12,
    "late": 6,
    "exec": 8,
    "long exec": 2,
    "hanging exec": 2,
    "child": 3,
    "child effect": 1.5,
    "child hangs": 0.5,
    "read": 3,
    "cut": 3,
    "500": 3,
    "429": 2,
    "reasoning": 3,
}


class Say(msgspec.Struct, frozen=True):
    """A message: `chat` counts within its platform, `mark` is in no other message."""

    at: float  # seconds since the beginning
    platform: str
    chat: int
    mark: str
    text: str
    kind: str


class Fault(msgspec.Struct, frozen=True):
    at: float
    name: str
    seconds: float
    share: float  # of what it may concern: clients, chats
    platform: str = ""


class Plan(msgspec.Struct, frozen=True):
    """The whole run. `calm_from` is when nothing fails any more but the load goes on, in one life of the gateway."""

    seed: int
    seconds: float
    calm_from: float
    says: Sequence[Say]
    faults: Sequence[Fault]
    chats: int = 200  # of each platform
    rate: float = 20.0  # messages a second over all

    def again(self, queue: str) -> str:
        """The options that make the very same run."""
        return (
            f"--seed {self.seed} --minutes {self.seconds / 60:g} --chats {self.chats} --rate {self.rate:g} "
            f"--queue {queue}"
        )


def make(
    seed: int,
    seconds: float,
    platforms: Mapping[str, Sequence[str]],
    *,
    chats: int = 200,
    rate: float = 20.0,
    without: frozenset[str] = frozenset(),
) -> Plan:
    """`platforms`: name → the faults it offers. `rate`: messages a second over all. `without`: faults left out."""
    chance = random.Random(seed)
    calm_from = seconds * 0.85
    says: list[Say] = []
    at = 0.0
    while True:
        at += chance.expovariate(rate)
        if at >= seconds:
            break
        # A burst in one chat now and then: its answers must come in its order.
        platform, chat = chance.choice(sorted(platforms)), chance.randrange(chats)
        for _ in range(chance.choice((1, 1, 1, 1, 1, 2, 5))):
            mark = f"m{len(says):06d}"
            kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
            says.append(Say(at, platform, chat, mark, text(kind, mark, chance), kind))
    kinds = {
        name: (weight, low, high, "") for name, (weight, low, high) in [*GATEWAY.items(), *WORLD.items()]
    }
    for name, offered in sorted(platforms.items()):
        kinds |= {f"{name}: {fault}": (*PLATFORM, name) for fault in offered}
    names = [name for name in kinds if name not in without]
    faults: list[Fault] = []
    at = 1.0
    while at < calm_from:
        name = chance.choices(names, [kinds[one][0] for one in names])[0]
        _, low, high, platform = kinds[name]
        faults.append(Fault(at, name, chance.uniform(low, high), chance.uniform(0.1, 1.0), platform))
        at += chance.uniform(0.2, 2.5)
    return Plan(seed, seconds, calm_from, says, faults, chats, rate)


def delegation(task: str, mark: str, mode: str) -> str:
    call = msgspec.json.encode({"task": task, "mode": mode}).decode()
    return f"TOOL delegate {call}\n{mark}"


def text(kind: str, mark: str, chance: random.Random) -> str:
    """A message for the emulated model; its last line holds the mark."""
    effect = f"echo {mark} >> effects.txt && echo done {mark}"
    match kind:
        case "slow":
            return f"SLOW 40\nsay these few words one after another please {mark}"
        case "late":
            return f"DELAY {chance.uniform(0.1, 1.0):.2f}\n{mark}"
        case "exec":
            return f'TOOL exec {{"command": "{effect}"}}\n{mark}'
        case "long exec":
            return f'TOOL exec {{"command": "{effect}; sleep 2"}}\n{mark}'
        case "hanging exec":
            return f'TOOL exec {{"command": "{effect}; sleep 600", "timeout": 1}}\n{mark}'
        case "child":  # its result comes as a message of its own, which is answered too
            return delegation(f"DELAY {chance.uniform(0.1, 1.0):.2f}\nnested {mark}", mark, "async")
        case "child effect":
            return delegation(f'TOOL exec {{"command": "{effect}"}}\nnested {mark}', mark, "sync")
        case "child hangs":
            return delegation(f"HANG\nnested {mark}", mark, "sync")
        case "read":
            return f'TOOL list_dir {{"path": "."}}\n{mark}'
        case "cut":
            return f"CUT 1\nbroken off half-way the first time {mark}"
        case "500" | "429":
            return f"STATUS {kind} 1\n{mark}"
        case "reasoning":
            return f"REASON let me think\n{mark}"
    return mark
