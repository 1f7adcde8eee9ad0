"""/delete: the present session is erased and closed, after a question."""

from functools import partial

from anyio import to_thread

from agent.core.outbox import Question
from agent.memory.erasure import forget, preview
from agent.memory.rows import Target
from gateway.commands.command import Call, Command, Reply
from gateway.commands.kept.memory import MemoryCommandDeps, copies_of, scope_of


async def delete(call: Call[MemoryCommandDeps]) -> Reply:
    """Erases what was said in it, as /memory forget does, and lets the next message begin another.

    Facts that were kept from it stay; /memory shows and forgets them.
    """
    phrase, language, deps = call.phrase, call.incoming.language, call.deps
    session = await call.agent.delete_session()
    if session is None:
        return Reply(text=phrase("delete_none", language))
    target = Target(scope=scope_of(call), session=session.id)
    there = await preview(deps.memory, target)
    question = Question(
        prompt=phrase("delete_question", language, count=there.messages),
        asked_of=call.incoming.person,
        interaction=call.incoming.interaction,
        grave=True,
    )
    answer = await deps.ask(call.key, question, language)
    if answer.choice != "yes":
        call.agent.take_staged()
        return Reply(text=phrase("delete_kept", language))
    holds = await to_thread.run_sync(deps.learning.quoted_of, there.texts)
    await deps.learning.forget(there.conversations, holds)
    erased = await forget(
        deps.memory, target, home=deps.home, files=deps.files, folders=partial(copies_of, deps.home), clock=deps.clock
    )
    call.agent.memory_changed()
    return Reply(text=phrase("delete_done", language, count=erased.messages))


DELETE = Command(name="delete", deps=MemoryCommandDeps, run=delete, group="chat", admin_in_groups=True)
