# SPDX-License-Identifier: Apache-2.0
"""The newer load test: a thread for each iteration; 200 and 201 are successes."""
import argparse
import concurrent.futures
import time
import uuid

import requests


def iteration(url, number):
    body = {"user_id": f"load_user_{number}", "thread_id": f"load_{uuid.uuid4().hex}",
            "timeout_minutes": 30}
    created = requests.post(f"{url}/create_session", json=body, timeout=10)
    if created.status_code not in (200, 201):
        return f"create: {created.status_code}"
    session_id = created.json()["session_id"]
    try:
        for command in ("whoami", "pwd", f"echo 'Request {number}'"):
            body = {"session_id": session_id, "command": command, "timeout": 30}
            done = requests.post(f"{url}/execute", json=body, timeout=35)
            if done.status_code != 200:
                return f"execute {command}: {done.status_code}"
            if done.json()["exit_code"] != 0:
                return f"execute {command}: {done.json()['stderr']}"
    finally:
        requests.post(f"{url}/cleanup", json={"session_id": session_id}, timeout=10)
        time.sleep(0.1)
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--workers", type=int, default=10)
    parser.add_argument("--num-requests", type=int, default=100)
    options = parser.parse_args()
    health = requests.get(f"{options.url}/health", timeout=5).json()
    print(f"Worker {health['worker_id']}: pool {health['pool_size']}, "
          f"{health['active_sessions']} sessions")
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        failures = list(filter(None, pool.map(lambda n: iteration(options.url, n),
                                              range(options.num_requests))))
    print(f"Successful: {options.num_requests - len(failures)}, failed: {len(failures)}")
    print("\n".join(failures))


if __name__ == "__main__":
    main()
