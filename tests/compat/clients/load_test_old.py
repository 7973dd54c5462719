# SPDX-License-Identifier: Apache-2.0
"""The older load test: sessions without a thread, and nothing but 200 is a success."""
import argparse
import concurrent.futures
import time

import requests


def iteration(url, number):
    created = requests.post(f"{url}/create_session", json={}, timeout=10)
    if created.status_code != 200:
        return f"create: {created.status_code}"
    session_id = created.json()["session_id"]
    try:
        for command in ("whoami", "pwd", f"echo 'Request {number}'"):
            done = requests.post(f"{url}/execute", timeout=35,
                                 json={"session_id": session_id, "command": command})
            if done.status_code != 200:
                return f"execute {command}: {done.status_code}"
            if done.json()["exit_code"] != 0:
                return f"execute {command}: {done.json()['output']}"
    finally:
        requests.post(f"{url}/cleanup", json={"session_id": session_id}, timeout=10)
        time.sleep(0.1)
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--requests", type=int, default=100)
    options = parser.parse_args()
    health = requests.get(f"{options.url}/health", timeout=5).json()
    print(f"Worker {health['worker_id']}: pool {health['pool_size']}, "
          f"{health['active_sessions']} sessions")
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        failures = list(filter(None, pool.map(lambda n: iteration(options.url, n),
                                              range(options.requests))))
    print(f"Successful: {options.requests - len(failures)}, failed: {len(failures)}")
    print("\n".join(failures))


if __name__ == "__main__":
    main()
