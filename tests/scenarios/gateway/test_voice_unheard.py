"""Without a transcriber and a model that hears, a chat is told once that voice messages are not heard."""

from collections.abc import Callable

from gateway.channels.inbound import Attachment
from tests.gateway.world import ANN, GROUP, World

UNHEARD = "cannot hear voice messages"


def voice(number: int) -> Attachment:
    return Attachment(kind="audio", handle="OggS", name=f"v{number}.ogg", mime_type="audio/ogg", size=4)


async def test_a_chat_is_told_once_that_voice_is_not_heard(world_of: Callable[..., World]) -> None:
    world = world_of()
    async with world.process():
        await world.say("hello")
        await world.shows("hello")
        await world.settled()
        assert not [text for text in world.texts() if UNHEARD in text]
        for number in range(2):
            await world.say(f"listen {number}", attachments=(voice(number),))
            await world.shows(f"listen {number}")
            await world.settled()
    async with world.process():  # nor again by the next process
        await world.say("listen again", attachments=(voice(2),))
        await world.shows("listen again")
        await world.settled()
        assert len([text for text in world.texts() if UNHEARD in text]) == 1
        await world.say("listen here", person=ANN, chat=GROUP, attachments=(voice(3),))
        await world.shows(UNHEARD, GROUP)
