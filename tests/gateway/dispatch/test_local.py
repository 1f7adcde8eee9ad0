"""The dispatcher of one process: order, one turn at a time, nothing stranded, nothing blocked."""

from tests.fakes.agents import House, answers, until


async def test_smoke(sqlite_database):
    house = House(sqlite_database)
    async with house.running():
        await house.says("telegram:1", "a")
        async def done(): return await answers(sqlite_database) == ["a"]
        await until(done)
        await until(lambda: not house.dispatcher._active)
    print(house.given)
