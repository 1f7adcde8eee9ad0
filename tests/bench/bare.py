"""The floor: a bot without any of our duties. It polls, asks the model, sends the answer; nothing is kept or retried.

Run as `python -m tests.bench.bare TELEGRAM_PORT LLM_PORT TOKEN`; what a turn of it costs on a machine says how to read
the other figures of that machine.
"""

import json
import sys

import aiohttp
import anyio


async def main(telegram_port: int, llm_port: int, token: str) -> None:
    bot = f"http://127.0.0.1:{telegram_port}/bot{token}"
    model = f"http://127.0.0.1:{llm_port}/v1/chat/completions"
    offset = 0
    async with aiohttp.ClientSession() as client:
        while True:
            async with client.post(f"{bot}/getUpdates", json={"offset": offset, "timeout": 30}) as answer:
                updates = (await answer.json())["result"]
            for update in updates:
                offset = update["update_id"] + 1
                said = update["message"]
                body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": said["text"]}]}
                text = ""
                async with client.post(model, json=body, headers={"authorization": "Bearer x"}) as stream:
                    async for line in stream.content:
                        if line.startswith(b"data: {"):
                            for choice in json.loads(line[6:])["choices"]:
                                text += choice["delta"].get("content") or ""
                message = {"chat_id": said["chat"]["id"], "text": text}
                async with client.post(f"{bot}/sendMessage", json=message) as sent:
                    await sent.read()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
