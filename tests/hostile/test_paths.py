"""Every use of the disk by the product, with the reason why no link and no foreign name can lead it elsewhere.

Workspaces are writable from the sandbox, so what lies in one is reached through `agent.core.files.safe` alone. A use
that is not registered fails here until somebody has looked at its path; so does a registered one that is gone.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.product_calls import ROOT, Use, differences, uses_in, uses_of_product

METHODS = frozenset(
    {
        "unlink", "rmdir", "mkdir", "touch", "chmod", "lchmod", "rename", "write_text", "write_bytes",
        "symlink_to", "hardlink_to", "link_to", "extract", "extractall", "truncate", "rmtree", "read_text",
        "read_bytes", "rglob", "glob", "iterdir", "scandir", "copyfile", "copytree",
    }
)  # fmt: skip
OF_OS = frozenset(
    {
        "open", "unlink", "remove", "rmdir", "removedirs", "rename", "renames", "replace", "mkdir", "makedirs",
        "link", "symlink", "chmod", "fchmod", "lchmod", "chown", "lchown", "fchown", "truncate", "ftruncate",
        "mkfifo", "mknod", "utime", "walk", "fwalk", "scandir", "listdir", "fdopen", "pwrite", "write",
        "sendfile",
    }
)  # fmt: skip
WHOLE_MODULES = ("shutil", "tempfile", "tarfile", "zipfile", "fileinput", "glob", "mmap")
HARMLESS = frozenset({"shutil.which", "shutil.disk_usage"})
IN_TREE = "agent.core.files.safe.Tree"
PUT_WHOLE = "agent.core.files.safe.put_whole"
WHOLE_OR_NOTHING = "gateway.channels.adapter.whole_or_nothing"
OTHERS = frozenset(
    {
        "io.open", "anyio.open_file", "anyio.Path", "sqlite3.connect", "discord.File",
        "starlette.responses.FileResponse", "starlette.staticfiles.StaticFiles", "jinja2.FileSystemLoader",
        # What takes a path of its caller's is registered at the caller too.
        IN_TREE, PUT_WHOLE, WHOLE_OR_NOTHING,
        "logging.FileHandler", "logging.handlers.RotatingFileHandler", "logging.handlers.WatchedFileHandler",
    }
)  # fmt: skip


def uses_disk(use: Use) -> bool:
    """Of `open` and `replace`, which other things have too, those that can be a path's."""
    name, call = use.dotted, use.call
    if name == ".open":
        if call is None or not (call.args or call.keywords):
            return not use.awaited
        named = {keyword.arg for keyword in call.keywords} & {"mode", "encoding", "buffering", "newline"}
        return bool(named) or (bool(call.args) and isinstance(call.args[0], ast.Constant))
    if name == ".replace":  # of a text it takes two arguments, of a moment names alone
        return call is None or (len(call.args) == 1 and not call.keywords)
    module, _, rest = name.partition(".")
    return (
        (not module and rest in METHODS)
        or (module == "os" and rest in OF_OS)
        or (module in WHOLE_MODULES and bool(rest) and name not in HARMLESS)
        or name == "open"
        or (call is not None and name in OTHERS)
    )


# The verdicts: whose path it is.
TREE = "opened name by name below a root, without following links"
WORKSPACE = "the workspace's own folder: it lies where no sandboxed command can write, and its name is the gateway's"
DATA = (
    "made by the gateway of quoted ids, hashes and its own words, in a folder of the data directory without workspaces"
)
RECEIVED = (
    "files/…: made by the gateway, named by `safe_name` or read from rows that it wrote; no command sees the folder"
)
UPLOADED = "uploads/…: a random name of the gateway's own, and in it names by `safe_name`; no command sees the folder"
WEB = "web/chat: random names of the gateway's own; an id from outside must be letters and digits"
OPERATOR = "the operator's: from the command line, the configuration, or in a folder that the operator alone fills"
STAGE = "in a new folder that this process made for a backup; names that an archive brings were checked before"
SHIPPED = "files of the package, /proc, or a temporary folder of its own"
CONFINED = "in the process that reads one document: it has that document's path, and writes to its output alone"
NONE = "opens no file: another thing of the same name"

REGISTER: dict[str, tuple[str, str]] = {
    "agent/compaction/dumps.py Dumps.write": (".mkdir open os.open", DATA),
    "agent/core/failpoints.py Armed.__call__": (".read_text .unlink", OPERATOR),
    "agent/core/files/safe.py Tree.adopt": ("os.rename", TREE),
    "agent/core/files/safe.py Tree.place": ("os.replace", TREE),
    "agent/core/files/safe.py Tree.write": ("os.fchmod os.fdopen os.open os.replace os.unlink", TREE),
    "agent/core/files/safe.py Tree._folder": (".mkdir os.mkdir", TREE),
    "agent/core/files/safe.py Tree._open_root": ("os.open", TREE),
    "agent/core/files/safe.py removed": ("os.rename os.rmdir os.unlink", TREE),
    "agent/core/files/safe.py _emptied": ("os.listdir", TREE),
    "agent/core/files/safe.py pruned": ("os.listdir os.unlink", TREE),
    "agent/core/files/safe.py _within": ("os.open os.rmdir", TREE),
    "agent/core/files/safe.py _opened_to_empty": ("os.chmod os.fchmod os.open os.open os.open", TREE),
    "agent/core/files/safe.py _step": ("os.open", TREE),
    "agent/core/files/safe.py _opened": ("os.open", TREE),
    "agent/core/files/safe.py _entries": ("os.scandir", TREE),
    "agent/core/files/safe.py _missing": ("os.listdir", TREE),
    "agent/documents/documents.py Documents._tree": (IN_TREE, TREE),
    "agent/documents/office.py Package.__init__": ("zipfile.BadZipFile zipfile.ZipFile", CONFINED),
    "agent/documents/office.py Package.pieces": ("zipfile.BadZipFile", CONFINED),
    "agent/documents/reader.py read": (".open .read_bytes .read_bytes", CONFINED),
    "agent/documents/reader.py": ("os.fdopen os.open", CONFINED),
    "agent/definitions.py Definitions.names": (".glob", OPERATOR),
    "agent/definitions.py text_of": (".read_bytes", OPERATOR),
    "agent/ledger/ledger.py Journal.recover": (".read_bytes", DATA),
    "agent/ledger/ledger.py Journal.shrink": ("os.open os.replace os.write", DATA),
    "agent/ledger/ledger.py Journal._write": (".mkdir os.open os.write", DATA),
    "agent/memory/erasure.py _files": (IN_TREE, TREE),
    "agent/memory/notes.py read": (".open", DATA),
    "agent/memory/notes.py write": (f".read_text {PUT_WHOLE}", DATA),
    "agent/memory/notes.py keep_version": (".chmod .mkdir .unlink .write_text", DATA),
    "agent/memory/notes.py versions_of": (".glob", DATA),
    "agent/memory/notes.py follow": (".mkdir .read_text .read_text .replace .unlink shutil.rmtree", DATA),
    "agent/memory/notes.py erase": (".read_text .unlink .write_text", DATA),
    "agent/providers/encoding.py _read": (IN_TREE, TREE),
    "agent/providers/openai/client.py OpenAIProvider.warm_up": (".open", NONE),
    "agent/providers/openai/client.py _Connections.post": (".open", NONE),
    "agent/providers/openai/transcription.py OpenAITranscriber.transcribe": (".read_bytes anyio.Path", RECEIVED),
    "agent/providers/models.py cards": (".read_bytes", SHIPPED),
    "agent/providers/models.py lookup": (".read_bytes", SHIPPED),
    "agent/providers/tiktokens.py counter": (".read_bytes", SHIPPED),
    "agent/skills/drafts.py Drafter._has_room": (".glob", DATA),
    "agent/skills/drafts.py Drafter._write": (f"{PUT_WHOLE} {PUT_WHOLE}", DATA),
    "agent/skills/drafts.py Drafter._unquote": (f".read_text {PUT_WHOLE} shutil.rmtree", DATA),
    "agent/skills/folders.py files_of": ("os.scandir", OPERATOR),
    "agent/skills/folders.py _read": (".open", OPERATOR),
    "agent/skills/folders.py text_of": (".open", OPERATOR),
    "agent/skills/folders.py _beside": ("os.scandir", OPERATOR),
    "agent/spoken_answers.py SpokenAnswers.find": ("anyio.Path anyio.Path", RECEIVED),
    "agent/storage/files/cache.py FileCache.begin": (".mkdir os.fdopen os.open", DATA),
    "agent/storage/files/cache.py FileCache.folders": (IN_TREE, TREE),
    "agent/storage/files/cache.py FileCache.workspaces": ("os.scandir", TREE),
    "agent/storage/files/cache.py FileCache.states": (IN_TREE, TREE),
    "agent/storage/files/cache.py FileCache.base": (".read_bytes", DATA),
    "agent/storage/files/cache.py FileCache.keep_base": (f".mkdir {PUT_WHOLE}", DATA),
    "agent/storage/files/cache.py FileCache.forget_base": (".unlink", DATA),
    "agent/storage/files/cache.py FileCache.belong_to": (PUT_WHOLE, DATA),
    "agent/storage/files/cache.py FileCache.waiting": (".read_bytes", DATA),
    "agent/storage/files/cache.py FileCache.keep_waiting": (f".unlink {PUT_WHOLE}", DATA),
    "agent/storage/files/cache.py forget_store": (".unlink", DATA),
    "agent/storage/files/cache.py FileCache._place": (IN_TREE, TREE),
    "agent/storage/files/cache.py FileCache._opened": ("os.fdopen", TREE),
    "agent/storage/files/cache.py _store": (".read_text", DATA),
    "agent/storage/files/cache.py _dress": ("os.fchmod os.utime", TREE),
    "agent/storage/files/stored_files.py _closed": (".unlink", DATA),
    "agent/storage/copies/transfer.py _removed": (".unlink", OPERATOR),
    "agent/storage/copies/sqlite.py copy_file": (".rename .unlink .unlink os.open", OPERATOR),
    "agent/storage/copies/sqlite.py _copy": (".open sqlite3.connect sqlite3.connect", OPERATOR),
    "agent/storage/sqlite.py OwnerLock.take": ("os.ftruncate os.open os.pwrite", DATA),
    "agent/storage/connect.py _open_sqlite": (".mkdir os.open", OPERATOR),
    "agent/storage/connect.py _copied": (".mkdir", DATA),
    "agent/storage/connect.py way_back": (".glob", DATA),
    "agent/storage/connect.py _migrate": (".unlink", DATA),
    "agent/storage/copies/postgres.py _dump_table": (".open", STAGE),
    "agent/storage/copies/postgres.py _load_table": (".open", STAGE),
    "agent/storage/copies/dumped_tables.py rows_in": (".open", STAGE),
    "gateway/backup/archive.py": ("tarfile.GNU_FORMAT", NONE),
    "gateway/backup/archive.py Contents.__init__": ("tempfile.TemporaryFile", STAGE),
    "gateway/backup/archive.py Contents.write": ("tarfile.open", OPERATOR),
    "gateway/backup/archive.py _header": ("tarfile.TarInfo tarfile.TarInfo", NONE),
    "gateway/backup/archive.py is_archive": (".open", OPERATOR),
    "gateway/backup/archive.py unpack": (".open tarfile.TarError", OPERATOR),
    "gateway/backup/archive.py _unpack": ("tarfile.AREGTYPE tarfile.REGTYPE tarfile.open", OPERATOR),
    "gateway/backup/archive.py _manifest_of": ("tarfile.TarFile", NONE),
    "gateway/backup/archive.py _copied": (".mkdir os.fdopen os.open os.utime", STAGE),
    "gateway/backup/backup.py _archive": ("shutil.rmtree tempfile.mkdtemp", OPERATOR),
    "gateway/backup/backup.py _staged": ("os.fdopen os.open", STAGE),
    "gateway/backup/backup.py _put": (".rename os.link os.open", OPERATOR),
    "gateway/backup/backup.py _add_and_remove": (".open .unlink", STAGE),
    "gateway/backup/backup.py _add_configuration": (".read_bytes", OPERATOR),
    "gateway/backup/backup.py _add_folder": (f"{IN_TREE} os.fdopen", TREE),
    "gateway/backup/restore.py verify": ("tempfile.TemporaryDirectory", SHIPPED),
    "gateway/backup/restore.py _open_database": ("sqlite3.connect", STAGE),
    "gateway/backup/restore.py _stage": (".mkdir .rmdir shutil.rmtree tempfile.mkdtemp", OPERATOR),
    "gateway/backup/restore.py _url": (".read_text", STAGE),
    "gateway/backup/restore.py _place": (f"{IN_TREE} {IN_TREE}", TREE),
    "gateway/cli/backups.py passphrase_from": (".read_text", OPERATOR),
    "adapters/api.py UploadedFiles.fetch": ("shutil.copyfile", RECEIVED),
    "gateway/api/uploads.py Uploads.holds": (".read_bytes anyio.Path", RECEIVED),
    "gateway/api/uploads.py Uploads._drop": ("shutil.rmtree", UPLOADED),
    "gateway/api/places.py _copy": (".mkdir .replace shutil.copyfile", OPERATOR),
    "agent/storage/copies/restore.py restore": (".mkdir .replace .unlink .unlink", OPERATOR),
    "agent/storage/copies/restore.py check_copy": ("sqlite3.connect", OPERATOR),
    "agent/storage/copies/restore.py _keep": (".mkdir .replace .replace .unlink sqlite3.connect", OPERATOR),
    "agent/storage/copies/restore.py _sync": ("os.open", OPERATOR),
    "agent/storage/sqlite.py emptied": (".glob", DATA),
    "agent/storage/sqlite.py sqlite_engine.connect": ("sqlite3.connect", OPERATOR),
    "agent/core/files/safe.py put_whole": (".chmod .mkdir .replace .touch .write_bytes", DATA),
    "agent/subagent/profiles.py Profiles.names": (".glob", OPERATOR),
    "agent/tools/files/paths.py tree_of": (IN_TREE, TREE),
    "agent/run/environment.py _read_anew": (IN_TREE, TREE),
    "agent/tools/files/paths.py _of_skill": (IN_TREE, TREE),
    "adapters/web/routes.py Routes._rename": (".rename", NONE),
    "agent/storage/files/kept.py KeptFiles._look": (".read_bytes .read_bytes .rglob", DATA),
    "agent/storage/files/kept.py KeptFiles._take": (f".unlink {PUT_WHOLE}", DATA),
    "agent/storage/files/kept.py KeptFiles._contents": (".read_bytes", DATA),
    "agent/storage/files/kept.py KeptFiles._note": (PUT_WHOLE, DATA),
    "agent/storage/files/kept.py KeptFiles._folders": (".glob", DATA),
    "agent/tools/mcp/login.py read": (".read_bytes", DATA),
    "agent/tools/mcp/login.py write": (PUT_WHOLE, DATA),
    "gateway/cli/terminal/keyboard.py Keyboard.wake": ("os.write", NONE),
    "gateway/cli/mcp.py logout": (".unlink", DATA),
    "gateway/doctor/backups.py _drilled": ("tempfile.TemporaryDirectory", SHIPPED),
    "gateway/cli/checks/upgrade.py _tried": ("tempfile.TemporaryDirectory tempfile.gettempdir", SHIPPED),
    "gateway/doctor/providers.py tried_server": ("tempfile.TemporaryDirectory", SHIPPED),
    "gateway/running/tools.py McpHealth._changed": (".open", NONE),
    "gateway/dashboard/program/health.py HealthPages._problems": (".open", NONE),
    "gateway/dashboard/program/mcp_servers.py McpPages._shown": (".open", NONE),
    "agent/tools/mcp/server.py bounded": (".chmod .open .truncate .write_bytes", DATA),
    "agent/tools/mcp/server.py last_line": (".open", DATA),
    "agent/tools/mcp/wire.py _transport": (".open", DATA),
    "agent/tools/mcp/wire.py _make_ready": (".mkdir", DATA),
    "agent/tools/output_files.py move_outputs": (".iterdir .mkdir .replace .rmdir", DATA),
    "agent/tools/output_files.py Outputs.read": (".read_text", DATA),
    "agent/tools/output_files.py Outputs._write": (".mkdir .replace .touch .write_text", DATA),
    "agent/tools/shell/shell.py trouble_with": ("tempfile.TemporaryDirectory", SHIPPED),
    "agent/tools/shell/sandbox.py family_of": (".glob .read_text", SHIPPED),
    "agent/tools/shell/sandbox.py tasks_of_user": (".glob os.listdir", SHIPPED),
    "agent/tools/shell/shell.py Shell.shell": (".mkdir", WORKSPACE),
    "agent/tools/web/article.py extracted": (".extract", NONE),
    "agent/tools/files/paths.py links_outside": ("os.fwalk", TREE),
    "agent/tools/files/paths.py move_workspace": (".rename", WORKSPACE),
    "agent/turn/intake.py land": (IN_TREE, TREE),
    "agent/turn/intake.py _copy": (".read_bytes", RECEIVED),
    "agent/turn/tool_calls.py _attach": (f".mkdir {IN_TREE}", f"{WORKSPACE}; what lies in it is {TREE}"),
    "gateway/app.py App.bind": (".mkdir", OPERATOR),
    "gateway/channels/kit/http.py save": (f"anyio.open_file {WHOLE_OR_NOTHING}", RECEIVED),
    "gateway/channels/adapter.py whole_or_nothing.remove": (".unlink anyio.Path", RECEIVED),
    "gateway/cli/offline.py on_database": (".mkdir", OPERATOR),
    "gateway/cli/records.py export": (".write_text", OPERATOR),
    "gateway/cli/backups.py _schedule": (f".read_text {PUT_WHOLE}", OPERATOR),
    "gateway/cli/programs/webhooks.py test": (".read_bytes", OPERATOR),
    "gateway/cli/init.py _write": (".chmod .mkdir .mkdir .replace", OPERATOR),
    "gateway/cli/init.py _write_private": ("os.fdopen os.open", OPERATOR),
    "gateway/cli/checks/repair.py rights": (".chmod .chmod .glob .iterdir .mkdir", OPERATOR),
    "gateway/cli/checks/repair.py _leftovers": (".glob .glob .unlink shutil.rmtree", DATA),
    "gateway/cli/records.py usage_export": (".open", OPERATOR),
    "gateway/commands/kept/memory.py _write": (".chmod .mkdir .write_text", DATA),
    "gateway/commands/kept/session.py _write": (".chmod .mkdir .write_text", DATA),
    "gateway/commands/state/spending.py _write": (".chmod .mkdir .write_text", DATA),
    "gateway/config/document.py read_file": (".read_bytes", OPERATOR),
    "gateway/config/document.py write_file": (".mkdir", OPERATOR),
    "gateway/config/document.py _write_secret": (".chmod .mkdir", OPERATOR),
    "gateway/config/document.py _secret": (".read_bytes", OPERATOR),
    "gateway/config/document.py write_secrets": (".unlink", OPERATOR),
    "gateway/importers/draft.py Draft._stored": (".read_text", OPERATOR),
    "gateway/importers/home.py Home.tree": (IN_TREE, TREE),
    "gateway/importers/home.py Home.rows": ("sqlite3.connect tempfile.TemporaryDirectory", SHIPPED),
    "gateway/importers/home.py Home._copy": (".open", SHIPPED),
    "gateway/importers/plan.py _Files.__init__": (IN_TREE, TREE),
    "gateway/importers/writer.py _write_files": (f".mkdir {IN_TREE}", TREE),
    "gateway/importers/writer.py _write_files.write": ("os.fchmod", TREE),
    "gateway/importers/writer.py _undo": (f".unlink {IN_TREE}", TREE),
    "gateway/config/document.py _replace": (".replace .unlink .unlink os.fchmod os.fchown os.fdopen os.open", OPERATOR),
    "gateway/config/forms.py described": (".read_text", OPERATOR),
    "gateway/dashboard/program/accounts.py accounts_section.rows": (".open", OPERATOR),
    "gateway/dashboard/program/events.py EventPages.all": (".open", NONE),
    "gateway/config/read.py load": (".read_text", OPERATOR),
    "gateway/config/read.py resolved": (".read_text", OPERATOR),
    "gateway/delivery/outbox/call_journal.py CallJournal.note": ("os.pwrite", DATA),
    "gateway/delivery/outbox/call_journal.py _made": (".mkdir .unlink os.open os.pwrite", DATA),
    "gateway/delivery/outbox/call_journal.py _read": (".open", DATA),
    "gateway/delivery/outbox/call_journal.py _remove_dead": (".open .unlink", DATA),
    "gateway/delivery/outbox/call_journal.py _files": (".iterdir", DATA),
    "gateway/delivery/outbox/call_journal.py _header": (".read_text", SHIPPED),
    "gateway/delivery/ephemeral/drafts.py Draft._open": (".open", NONE),
    "gateway/operations/operations.py Operations._backup_path": (".mkdir", DATA),
    "gateway/phrases/catalogue.py spoken": (".glob", SHIPPED),
    "gateway/phrases/catalogue.py _said": (".read_text", SHIPPED),
    "gateway/phrases/catalogue.py read_catalogue": (".glob", SHIPPED),
    "gateway/router/attachments.py _make_folder": (".mkdir", RECEIVED),
    "gateway/router/attachments.py _fetch_once": (WHOLE_OR_NOTHING, RECEIVED),
    "gateway/router/attachments.py _kept": ("os.utime shutil.copyfile", RECEIVED),
    "gateway/running/beside/others.py _read_grants": (".replace", NONE),
    "gateway/router/changes.py Changes.moved": (".replace", NONE),
    "gateway/running/monitoring/alerts.py ModelHealth._trouble_of": (".open", NONE),
    "gateway/running/monitoring/overview.py OverviewService.overview": (".open", NONE),
    "gateway/running/monitoring/machine_watch.py MachineWatch.end": (".unlink", DATA),
    "agent/ledger/ledger.py Budgets.rename": (".rename", NONE),
    "gateway/running/spending.py Spending.renamed": (".rename", NONE),
    "gateway/running/monitoring/machine_watch.py MachineWatch._keep_ends": (".write_bytes", DATA),
    "gateway/running/monitoring/machine_watch.py _ends": (".read_bytes", DATA),
    "gateway/running/monitoring/machine_watch.py _begin": (".read_text .write_text", DATA),
    "gateway/running/monitoring/overview.py OverviewService.gauges": (".open .open", NONE),
    "gateway/backup/copies.py copies_in": ("os.scandir", OPERATOR),
    "gateway/backup/maker.py _make_private": (".mkdir", OPERATOR),
    "gateway/backup/request.py before_migration.back_up": (".mkdir", DATA),
    "gateway/backup/request.py backups_in": (".glob", OPERATOR),
    "gateway/backup/request.py keep_newest": (".unlink", OPERATOR),
    "gateway/running/foundation.py note_version": (".write_text", DATA),
    "gateway/running/foundation.py noted_version": (".read_text", DATA),
    "gateway/running/retention.py _remove_files": (IN_TREE, TREE),
    "gateway/running/retention.py _bound_logs": (".glob", DATA),
    "gateway/telemetry/machine.py load": ("os.listdir", SHIPPED),
    "gateway/telemetry/machine.py folders_in": ("os.scandir", DATA),
    "gateway/telemetry/machine.py _sizes_below": ("os.fwalk", TREE),
    "gateway/telemetry/machine.py _text": (".read_text", SHIPPED),
    "gateway/telemetry/logging.py _written_to": (".mkdir .touch logging.handlers.RotatingFileHandler", DATA),
    "gateway/telemetry/event_log.py _append": (".glob .mkdir .unlink os.fdopen os.open", DATA),
    "gateway/web/control.py _remove_stale": (".unlink", DATA),
    "gateway/web/control.py _take_away": (".unlink", DATA),
    "agent/storage/files/seal.py read_seal": (".open", OPERATOR),
    "gateway/web/sessions.py Sessions.__init__": (".unlink", DATA),
    "gateway/web/sessions.py own_key": (".chmod .mkdir .read_bytes", DATA),
    "gateway/web/sessions.py _write_private": (".replace os.fdopen os.open", DATA),
    "gateway/web/pages/rendering.py environment": ("jinja2.FileSystemLoader", SHIPPED),
    "gateway/dashboard/sections.py files": ("starlette.staticfiles.StaticFiles", SHIPPED),
    "gateway/web/server.py WebServer.bind": ("starlette.staticfiles.StaticFiles", SHIPPED),
    "adapters/web/routes.py Routes.all": ("starlette.staticfiles.StaticFiles", SHIPPED),
    "adapters/web/routes.py Routes._download": ("starlette.responses.FileResponse", WEB),
    "adapters/web/routes.py _page": ("jinja2.FileSystemLoader", SHIPPED),
    "adapters/console_screen.py _read": (".read_bytes", DATA),
    "adapters/console_screen.py _replace": (".replace os.fdopen os.open", DATA),
    "adapters/discord/history.py _looks": ("anyio.Path", RECEIVED),
    "adapters/discord/rest.py _opened": ("discord.File", RECEIVED),
    "adapters/slack/files.py SlackFiles.place": (".open anyio.Path", RECEIVED),
    "adapters/slack/streams.py SlackStreams.update": (".open .open .open", NONE),
    "adapters/slack/streams.py SlackStreams._finish": (".open .open", NONE),
    "adapters/discord/channel.py _voice_message": (".read_bytes anyio.Path", RECEIVED),
    "adapters/telegram/channel.py TelegramChannel._send_file": ("anyio.Path", RECEIVED),
    "adapters/telegram/channel.py TelegramChannel._upload": ("anyio.open_file", RECEIVED),
    "adapters/web/channel.py _Files.fetch": (f"{WHOLE_OR_NOTHING} shutil.copyfile", WEB),
    "adapters/web/messages.py _read": (".read_bytes", WEB),
    "adapters/web/messages.py _append": (".mkdir os.fdopen os.open", WEB),
    "adapters/web/messages.py Journal.remove": (".unlink", WEB),
    "adapters/web/chat_store.py read_names": (".read_bytes", WEB),
    "adapters/web/chat_store.py write_name": (".mkdir .replace os.fdopen os.open", WEB),
    "adapters/web/chat_store.py ChatFiles.remove_names": (".unlink anyio.Path", WEB),
    "adapters/web/chat_store.py ChatFiles._sessions": (".glob", WEB),
    "adapters/web/chat_store.py LineJournal.read": (".rename", WEB),
    "adapters/web/chat_store.py LineJournal.remove": (".unlink anyio.Path", WEB),
    "adapters/web/messages.py _rewrite": (".replace os.fdopen os.open", WEB),
    "adapters/web/attachment_store.py AttachmentStore.take": (f".open {WHOLE_OR_NOTHING}", WEB),
    "adapters/web/attachment_store.py AttachmentStore.keep.copy": ("shutil.copyfile", WEB),
    "adapters/web/attachment_store.py AttachmentStore.find.look": (".read_bytes", WEB),
    "adapters/web/attachment_store.py AttachmentStore._new": (".mkdir os.open", WEB),
    "adapters/web/attachment_store.py AttachmentStore._note": (".open .touch .write_text", WEB),
    "adapters/web/attachment_store.py AttachmentStore._make_room": (".iterdir .unlink .unlink", WEB),
}


def test_every_use_of_the_disk_has_been_looked_at() -> None:
    assert differences(uses_of_product(uses_disk), REGISTER) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from shutil import rmtree as gone\ndef f(p):\n    gone(p)", "shutil.rmtree"),
        ("import os as o\ndef f(p):\n    return run(o.unlink, p)", "os.unlink"),
        ("import os.path\ndef f(p):\n    os.replace(p, p)", "os.replace"),
        ("def f(p):\n    p.with_name('x').replace(p)", ".replace"),
        ("def f(p):\n    return [run(q.unlink) for q in p.rglob('*')]", ".rglob .unlink"),
        ("def f(p):\n    with p.open() as a, open(p) as b, p.open('w') as c: pass", ".open .open open"),
        ("import tarfile\ndef f(p):\n    tarfile.open(p).extractall(p)", ".extractall tarfile.open"),
        ("def f(t):\n    return t.replace('a', 'b').replace(x, y).replace(tzinfo=None)", None),
        ("async def f(provider):\n    await provider.open()", None),
    ],
)
def test_the_scan_sees_a_use_however_it_is_written(source: str, found: str | None) -> None:
    assert uses_in(source, uses_disk) == ({"f": tuple(found.split())} if found else {})


def test_a_use_that_is_not_registered_and_one_that_is_gone_are_told() -> None:
    found = {"a.py f": ("os.open",), "b.py g": (".unlink",)}
    told = differences(found, {"b.py g": (".unlink .unlink", DATA), "c.py": ("open", DATA)})
    assert told == [
        "not registered: a.py f: os.open (registered: nothing)",
        "not registered: b.py g: .unlink (registered: .unlink .unlink)",
        "registered and gone: c.py",
    ]


def watched(*tests: str, report: Path) -> str:
    """The uses of paths in a workspace by product code while these tests ran."""
    plugins = ("-p", "tests.hostile.watched_disk", "-p", "no:cacheprovider")
    words = [sys.executable, "-m", "pytest", "-q", "-n", "0", *plugins, *tests]
    ran = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "WATCHED_DISK": str(report)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3_000:]
    return report.read_text()


def test_no_path_below_a_workspace_is_opened_as_a_whole(tmp_path: Path) -> None:
    """Whole turns with tools, files received and sent, forgetting and tidying: what lies in a workspace is reached from
    the open folder it lies in."""
    tests = ("tests/scenarios/tools/test_files_and_programs.py", "tests/agent/tools/test_sending.py",
             "tests/agent/memory/test_erasure.py::test_the_files_go",
             "tests/gateway/running/test_retention.py::test_links_in_a_workspace_go_when_they_are_old_and_lead_nowhere",
             "tests/agent/tools/files/test_edit.py")  # fmt: skip
    assert watched(*tests, report=tmp_path / "report") == ""


def test_and_the_watch_would_see_one(tmp_path: Path) -> None:
    control = tmp_path / "test_control.py"
    control.write_text(
        "from pathlib import Path\nfrom agent.core.files.safe import put_whole\n"
        "def test_it(tmp_path):\n"
        "    (tmp_path / 'workspaces' / 'a').mkdir(parents=True)\n"
        "    put_whole(tmp_path / 'workspaces' / 'a' / 'x.txt', 'words')\n"
    )
    seen = watched(str(control), report=tmp_path / "report").splitlines()
    assert {line.split()[0] for line in seen} >= {"open", "os.rename", "os.chmod"}
