"""The floor: the least that a bot can be. It polls, asks the model with the whole history, and sends the answer.

One task for each chat; no storage, streaming, retries or error handling. A turn of it shows what machine, harness and
doubles cost. This file is frozen: tests/bench/test_frozen.py knows its hash.

Usage: floor_bot.py TELEGRAM_BASE LLM_BASE
"""

import asyncio
import sys

import aiohttp


async def main(telegram: str, llm: str) -> None:
    histories: dict[int, list[dict[str, str]]] = {}
    queues: dict[int, asyncio.Queue[str]] = {}
    async with aiohttp.ClientSession() as http:

        async def converse(chat: int) -> None:
            while True:
                history = histories.setdefault(chat, [{"role": "system", "content": "You are a bot."}])
                history.append({"role": "user", "content": await queues[chat].get()})
                body = {"model": "gpt-double", "messages": history}
                headers = {"Authorization": "Bearer x"}
                async with http.post(f"{llm}/v1/chat/completions", json=body, headers=headers) as response:
                    text = (await response.json())["choices"][0]["message"]["content"]
                history.append({"role": "assistant", "content": text})
                for begin in range(0, len(text), 4096):
                    message = {"chat_id": chat, "text": text[begin : begin + 4096]}
                    async with http.post(f"{telegram}/sendMessage", json=message) as sent:
                        await sent.read()

        offset, tasks = 0, []
        while True:
            async with http.get(f"{telegram}/getUpdates", params={"offset": offset, "timeout": 10}) as response:
                updates = (await response.json())["result"]
            for update in updates:
                offset = update["update_id"] + 1
                chat = update["message"]["chat"]["id"]
                if chat not in queues:
                    queues[chat] = asyncio.Queue()
                    tasks.append(asyncio.create_task(converse(chat)))
                queues[chat].put_nowait(update["message"]["text"])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
