"""Watchers: each rule on trajectories, and the two that are always on, end to end."""

from pathlib import Path

from nanobot.executor import Step
from nanobot.messages import new_id
from nanobot.model import Finished, ModelRequest, ToolCall
from nanobot.models.scripted import Reply, ScriptedModel, obey
from nanobot.watch import Action, Finding, Seen, Watch, budget, delegation, pattern, progress, quality, scope
from tests.gateway_in_memory import life
from tests.test_children import use, world_of


def run(*commands: str) -> Seen:
    return Seen([Step("command", str(number), text) for number, text in enumerate(commands)])


def say(*texts: str) -> Seen:
    return Seen([Step("message", text=text) for text in texts])


def action(finding: Finding | None) -> str:
    return finding.action if finding else "continue"


def test_the_same_call_three_times_is_told_and_nine_times_ended() -> None:
    watch = progress()
    assert action(watch(run("ls", "ls"))) == "continue"
    assert action(watch(run("ls", "ls", "pwd", "ls"))) == "continue"
    assert action(watch(run("ls", "ls", "ls"))) == "nudge"
    assert action(watch(run(*["ls"] * 9))) == "abort"
    other = [Step("tool", name="read", arguments={"path": str(number)}) for number in range(9)]
    assert watch(Seen(other)) is None


def test_the_budget_warns_when_most_of_it_is_used() -> None:
    assert budget()(Seen([], 0.79)) is None
    assert action(budget()(Seen([], 0.8))) == "nudge"


def test_words_out_of_scope_are_told() -> None:
    watch = scope(["kubernetes"])
    assert watch(say("all is well")) is None
    assert "kubernetes" in str(watch(say("I will set up Kubernetes")))


def test_patterns_take_the_strongest_and_pass_over_bad_ones() -> None:
    watch = pattern([("[", "abort", "never"), ("rm -rf", "abort", "no deleting"), ("rm", "nudge", "careful")])
    assert action(watch(run("RM -RF /"))) == "abort"
    assert action(watch(run("rm x"))) == "nudge"
    assert watch(run("ls")) is None


def test_words_alone_stop_nobody() -> None:
    rules: list[tuple[str, Action, str]] = [("rm -rf", "abort", "no"), ("sudo", "nudge", "careful")]
    watch = pattern(rules)
    assert watch(say("I will not rm -rf anything")) is None
    assert action(watch(run("rm -rf x"))) == "abort"
    assert action(watch(say("then sudo"))) == "nudge"
    tool = Seen([Step("tool", name="write", arguments={"text": "rm -rf /"})])
    assert action(watch(tool)) == "abort"
    assert scope(["kubectl"], "pause")(say("no kubectl here")) is None
    assert action(scope(["kubectl"], "pause")(run("kubectl get"))) == "pause"


def test_writing_through_the_shell_is_told_and_reading_is_not() -> None:
    watch = delegation()
    for command in ("cat <<EOF > a.py", "echo x > a", "printf 'a' >> b", "sort a | tee b", "sed -i s/a/b/ c"):
        assert action(watch(run(command))) == "nudge", command
    for command in (
        "grep -n 'class ' a.py",
        "import os",
        "sed -n 1,5p a",
        "echo hello",
        "ls 2>&1",
        "echo x >/dev/null",
    ):
        assert watch(run(command)) is None, command


def test_changes_without_tests_and_too_many_changes_are_told() -> None:
    change = Step("files", changes=[{"path": "a.py", "kind": "update"}])
    done = Step("message", text="done")
    watch = quality(max_files=2)
    assert action(watch(Seen([change, done]))) == "nudge"
    assert watch(Seen([change, Step("command", text="make test"), done])) is None
    assert watch(Seen([change])) is None  # it is not done yet
    many = Step("files", changes=[{"path": str(number)} for number in range(3)])
    assert action(watch(Seen([many]))) == "nudge"


def test_the_strongest_finding_counts_and_is_not_repeated_at_once() -> None:
    watch = Watch([progress(), pattern([("ls", "pause", "no ls")])], cooldown=5)
    assert str(watch.look(run("ls", "ls", "ls")).action) == "pause"  # type: ignore[union-attr]
    assert str(watch.look(run("ls", "ls", "ls", "ls")).action) == "nudge"  # type: ignore[union-attr]
    assert watch.look(run(*["ls"] * 5)) is None
    assert watch.look(run(*["ls"] * 8)) is not None


async def test_a_child_that_goes_round_in_circles_is_told_and_then_ended(tmp_path: Path) -> None:
    told: list[str] = []

    def circling(request: ModelRequest) -> Reply:
        if request.session.startswith("sub:"):
            told.extend(str(line["content"]) for line in request.messages if line.get("injected") == "nudge")
            return [ToolCall(new_id(), "list_sessions", "{}"), Finished("tool_calls")]
        return obey(request)

    world = world_of(tmp_path, ScriptedModel(circling))
    world.settings["max_steps"] = 200
    async with life(world) as gateway:
        found = await use(gateway, "delegate", task="circle")
        assert (found["success"], found["status"]) == (False, "killed")
        assert "[WATCHER: progress]" in found["error"]
    assert "[WATCHER: progress] You made the same call 3 times" in told[0]
