"""The gateway's Prometheus metrics; /metrics serves them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry(auto_describe=True)

ACCEPTED = Counter("nanobot_accepted", "Messages made durable.", ["channel"], registry=REGISTRY)
DUPLICATE = Counter(
    "nanobot_duplicate", "Messages that had been accepted before.", ["channel"], registry=REGISTRY
)
REFUSED = Counter(
    "nanobot_refused", "Messages not let in, by verdict.", ["channel", "verdict"], registry=REGISTRY
)
ANSWERED = Counter("nanobot_answered", "Messages whose turn was committed.", ["channel"], registry=REGISTRY)
DELIVERED = Counter("nanobot_delivered", "Replies the platform has.", ["channel"], registry=REGISTRY)
REDELIVERED = Counter(
    "nanobot_redelivered", "Deliveries tried again after an error or a crash.", ["channel"], registry=REGISTRY
)
DEAD = Counter(
    "nanobot_dead", "Messages and replies given up, by stage.", ["channel", "stage"], registry=REGISTRY
)
RESUMED = Counter("nanobot_resumed", "Turns taken up again after a crash or a restart.", registry=REGISTRY)
TURN_SECONDS = Histogram(
    "nanobot_turn_seconds",
    "Time from taking a turn to its commit.",
    ["status"],
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800),
    registry=REGISTRY,
)
RUNNING = Gauge("nanobot_turns_running", "Turns that run now.", registry=REGISTRY)
QUEUE_DEPTH = Gauge("nanobot_queue_depth", "Accepted messages that wait.", registry=REGISTRY)
QUEUE_AGE = Gauge("nanobot_queue_age_seconds", "Age of the oldest message that waits.", registry=REGISTRY)
TOKENS = Counter("nanobot_tokens", "Tokens as providers counted them.", ["model", "kind"], registry=REGISTRY)
