# SPDX-License-Identifier: Apache-2.0
"""Routes of webhooks and of the audit log, for tests/security/test_matrix.py: who may, the status
for the right one, path, body, the status for another tenant, headers, and what is made anew.

"tenant": for admins, each of what is its tenant's."""
HOOK = "/api/webhooks/{webhook}"
SENT = "/api/webhooks/deliveries/{delivery}"
NEW = {"url": "http://127.0.0.1:9/", "active": False}
ROWS = {
    "GET /api/webhooks/deliveries": ("write", 200, "/api/webhooks/deliveries", None, 200),
    "DELETE /api/webhooks/deliveries/{id}": ("write", 200, SENT, None, 404, None, "delivery"),
    "POST /api/webhooks/deliveries/{id}/replay": ("write", 200, SENT + "/replay"),
    "POST /api/webhooks": ("write", 201, "/api/webhooks", NEW, 201),
    "GET /api/webhooks": ("write", 200, "/api/webhooks", None, 200),
    "GET /api/webhooks/{id}": ("write", 200, HOOK),
    "PATCH /api/webhooks/{id}": ("write", 200, HOOK, {"description": "x"}),
    "DELETE /api/webhooks/{id}": ("write", 200, HOOK, None, 404, None, "webhook"),
    "POST /api/webhooks/{id}/test": ("write", 200, HOOK + "/test"),
    "POST /api/webhooks/{id}/replay": ("write", 200, HOOK + "/replay", {}),
    "GET /admin/audit": ("tenant", 200, "/admin/audit?action=/create_session", None, 200),
}


def make(world, kind):
    if kind == "webhook":
        body = {"url": "http://127.0.0.1:9/", "events": ["artifact.kept"]}
        world.names["webhook"] = world.post("/api/webhooks", body)["id"]
    else:
        world.post("/api/sessions/{session}/artifacts", {"path": "f"})
        reply = world.ask(world.right, "GET", "/api/webhooks/deliveries")
        world.names["delivery"] = reply.json["deliveries"][0]["id"]
