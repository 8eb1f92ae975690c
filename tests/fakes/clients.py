"""Clients of ``admire serve`` who send one row again and again, over connections that stay open.

``python clients.py PORT CLIENTS REQUESTS`` prints as JSON the answers by status, how many came a
second, and the seconds in which half and 99 % of those with status 200 came.
"""

import http.client
import json
import sys
import threading
import time
from collections import Counter

ROW = {
    "compound": "night owl",
    "sentence": "The night owl sat on the branch and hooted.",
    "language": "en",
    "candidates": ["an owl in a tree", "a woman at a desk", "a bicycle", "a bird", "tea"],
}


def main(port: int, clients: int, requests: int) -> None:
    body, left = json.dumps(ROW), iter(range(requests))
    lock, times, statuses = threading.Lock(), list[float](), Counter[int]()

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while True:
            with lock:
                if next(left, None) is None:
                    return
            started = time.perf_counter()
            connection.request("POST", "/v1/rank", body, {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                answer.read()
            with lock:
                statuses[answer.status] += 1
                if answer.status == 200:
                    times.append(time.perf_counter() - started)

    threads = [threading.Thread(target=send) for _ in range(clients)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    times.sort()
    half, most = times[len(times) // 2], times[int(0.99 * len(times))]
    taken = {"a second": len(times) / seconds, "p50": half, "p99": most}
    print(json.dumps({"statuses": statuses} | taken))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
