"""Events of the real program for another one: a kill between the commit and the delivery loses none."""

import pytest

from tests.fakes.standard_webhooks import verified
from tests.fakes.webhook_server import webhook_server
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import OnTelegram

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.slow  # two starts of the program; tests/gateway/events kills a gateway in its own process
@pytest.mark.requirement("G-130")
async def test_a_kill_after_the_commit_delivers_after_the_restart_under_the_same_id(
    doubles: Doubles, program: Start
) -> None:
    async with webhook_server() as hook:
        hook.is_slow = True  # it has the request and does not answer
        events = (
            f'[[events]]\nname = "crm"\nurl = "{hook.url}/hook/crm"\nsecret = "{SECRET}"\n'
            'allow_private = ["127.0.0.1"]\n'
        )
        telegram = OnTelegram(doubles)
        config = configs.ACCESS + configs.models(doubles, "a") + configs.telegram(doubles) + events
        async with program(config, about={"events"}) as tieline:
            await telegram.say("hello")
            await telegram.hears("hello")
            await until(lambda: _is(1, hook.asked), what="the first request")
            tieline.kill()
            assert tieline.rows("select type, state, attempts from event_delivery") == [("turn.finished", "open", 0)]
            hook.is_slow = False
            tieline.start()
            await tieline.ready()
            await until(lambda: _is([("sent",)], tieline.rows("select state from event_delivery")), what="the mark")
        assert len({headers["webhook-id"] for _, headers in hook.taken}) == 1
        body, headers = hook.taken[-1]
        assert verified(SECRET, body, headers)["data"]["conversation"] == "telegram:77"


async def _is(wanted: object, found: object) -> bool:
    return wanted == found
