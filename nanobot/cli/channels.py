"""`nanobot channels`: which there are."""

import typer

from nanobot.cli.common import JsonOption, WorkspaceOption, as_json, table, workspace_of


def channels(ctx: typer.Context, workspace: WorkspaceOption = None, json: JsonOption = False) -> None:
    """List channels: shipped and of the workspace, which are enabled, and what they still need."""
    from nanobot import content  # noqa: PLC0415 - lazy: --help reads no configuration
    from nanobot.config import load  # noqa: PLC0415 - lazy: see above
    from nanobot.extras import missing  # noqa: PLC0415 - lazy: see above
    from nanobot.manifest import read  # noqa: PLC0415 - lazy: see above

    place = workspace_of(ctx, workspace)
    enabled = {one.name for one in load(place).enabled()}
    shipped = content.bundled("channels")
    rows = []
    for name, folder in content.find("channels", place).items():
        manifest = read(folder)
        code = (folder / "__init__.py").is_file()
        lack = missing(manifest.extra) if manifest.extra else []
        rows.append(
            {
                "name": name,
                "title": manifest.title,
                "from": "shipped" if folder.parent == shipped else "workspace",
                "enabled": name in enabled,
                "needs": "an adapter: this build has none" if not code else manifest.needs if lack else "",
            }
        )
    if json:
        as_json(rows)
        return
    table(
        ("NAME", "TITLE", "FROM", "ENABLED", "NEEDS"),
        (
            (row["name"], row["title"], row["from"], "yes" if row["enabled"] else "no", row["needs"] or "-")
            for row in rows
        ),
    )
