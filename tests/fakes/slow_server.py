"""A chat server that takes a while for each answer, and hardly any of the processor.

``python slow_server.py SECONDS`` prints its port and runs until it is ended.
"""

import asyncio
import json
import re
import sys

CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Literal"}}
USAGE = {"prompt_tokens": 300, "completion_tokens": 1, "total_tokens": 301}
BODY = json.dumps({"object": "chat.completion", "choices": [CHOICE], "usage": USAGE}).encode()
HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            await reader.readexactly(int(length[1]) if length else 0)
            await asyncio.sleep(float(sys.argv[1]))
            writer.write(HEAD.format(len(BODY)).encode() + BODY)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
