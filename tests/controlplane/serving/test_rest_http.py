"""REST over real HTTP: the verbs, their answers and their refusals."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.controlplane.server import ControlPlane

from ..conftest import Http, make_node, make_pod

PODS = "/api/v1/namespaces/default/pods"


async def test_a_created_pod_comes_back_with_identity_and_defaults(http: Http) -> None:
    code, pod = await http("POST", PODS, make_pod())
    assert code == 201
    assert pod["metadata"]["uid"] and pod["metadata"]["generation"] == 1
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert await http("GET", f"{PODS}/web") == (200, pod)


async def test_generate_name_adds_five_letters(http: Http) -> None:
    pod = make_pod()
    pod["metadata"] = {"generateName": "job-"}
    _, made = await http("POST", PODS, pod)
    assert made["metadata"]["name"].startswith("job-") and len(made["metadata"]["name"]) == 9


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason", "message"),
    [
        pytest.param("GET", f"{PODS}/gone", None, 404, "NotFound", 'pods "gone" not found', id="a missing pod"),
        pytest.param(
            "GET",
            f"{PODS}/web/log",
            None,
            501,
            "NotImplemented",
            "pods/log: no container runs here: nodes and their kubelets are simulated, and pods have no processes",
            id="logs",
        ),
        pytest.param(
            "POST",
            "/api/v1/namespaces/nowhere/pods",
            make_pod(),
            404,
            "NotFound",
            'namespaces "nowhere" not found',
            id="a missing namespace",
        ),
        pytest.param(
            "POST",
            PODS,
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}},
            422,
            "Invalid",
            'Pod "x" is invalid: spec.containers: Required value',
            id="a pod without containers",
        ),
        pytest.param(
            "POST",
            PODS,
            make_pod(restartPolicy="Sometimes"),
            422,
            "Invalid",
            'Pod "web" is invalid: spec.restartPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "OnFailure", "Never"',
            id="an unknown restart policy",
        ),
        pytest.param(
            "POST",
            PODS,
            make_pod(priorityClassName="royal"),
            403,
            "Forbidden",
            'pods "web" is forbidden: no PriorityClass with name royal was found',
            id="an unknown priority class",
        ),
        pytest.param("POST", PODS, b"{", 400, "BadRequest", None, id="half a body"),
        pytest.param(
            "POST",
            PODS,
            make_pod(containers="c"),
            400,
            "BadRequest",
            'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field '
            "spec.containers of type []v1.Container",
            id="a string where a list belongs",
        ),
        pytest.param("GET", "/api/v1/wonders", None, 404, "NotFound", None, id="an unknown resource"),
        pytest.param("DELETE", "/api/v1/pods", None, 405, "MethodNotAllowed", None, id="delete everywhere"),
        pytest.param(
            "GET", f"{PODS}?labelSelector=a%20b", None, 400, "BadRequest", None, id="a label selector without operator"
        ),
        pytest.param(
            "GET",
            f"{PODS}?fieldSelector=spec.mood%3Dgood",
            None,
            400,
            "BadRequest",
            None,
            id="an unknown field selector",
        ),
        pytest.param("GET", f"{PODS}?limit=-1", None, 400, "BadRequest", None, id="a negative limit"),
        pytest.param("GET", f"{PODS}?continue=zzz", None, 400, "BadRequest", None, id="a made-up continue token"),
        pytest.param("POST", f"{PODS}?dryRun=Some", make_pod(), 422, "Invalid", None, id="half a dry run"),
    ],
)
async def test_refusals_are_statuses_in_upstreams_words(
    http: Http, method: str, path: str, body: Any, code: int, reason: str, message: str | None
) -> None:
    got_code, status = await http(method, path, body)
    assert (got_code, status["kind"], status["reason"], status["code"]) == (code, "Status", reason, code)
    if message is not None:
        assert status["message"] == message


async def test_without_a_token_only_health_and_version_answer(plane: ControlPlane, http: Http) -> None:
    assert (await http("GET", "/api/v1/pods", Authorization=""))[0] == 401
    assert (await http("GET", "/api/v1/pods", Authorization="Bearer wrong"))[0] == 401
    assert await http("GET", "/readyz", Authorization="") == (200, "ok")
    assert (await http("GET", "/version", Authorization=""))[1]["gitVersion"].startswith("v1.36.")


async def test_a_stale_update_conflicts_and_a_fresh_one_counts_generation(http: Http) -> None:
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    _, made = await http("POST", path, deployment)
    made["spec"]["replicas"] = 3
    code, updated = await http("PUT", f"{path}/d", made)
    assert (code, updated["metadata"]["generation"]) == (200, 2)
    code, status = await http("PUT", f"{path}/d", made)
    assert code == 409 and "the object has been modified" in status["message"]
    code, same = await http("PUT", f"{path}/d", updated)
    assert same["metadata"]["resourceVersion"] == updated["metadata"]["resourceVersion"]


async def test_dry_run_leaves_nothing_behind(http: Http) -> None:
    code, pod = await http("POST", f"{PODS}?dryRun=All", make_pod())
    assert code == 201 and pod["metadata"]["uid"]
    assert (await http("GET", f"{PODS}/web"))[0] == 404


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        pytest.param("Strict", 400, id="strict refuses"),
        pytest.param("Warn", 201, id="warn accepts"),
        pytest.param("Ignore", 201, id="ignore accepts"),
    ],
)
async def test_unknown_fields_follow_field_validation(http: Http, mode: str, code: int) -> None:
    pod = make_pod(colour="blue")
    got, answer = await http("POST", f"{PODS}?fieldValidation={mode}", pod)
    assert got == code
    if code == 400:
        assert answer["message"].endswith('strict decoding error: unknown field "spec.colour"')
    else:
        assert "colour" not in answer["spec"]


async def test_pages_show_one_moment_although_the_world_moves_on(http: Http) -> None:
    for i in range(5):
        await http("POST", PODS, make_pod(f"p{i}"))
    _, first = await http("GET", f"{PODS}?limit=2")
    assert [pod["metadata"]["name"] for pod in first["items"]] == ["p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 3
    await http("DELETE", f"{PODS}/p2")
    await http("POST", PODS, make_pod("p3a"))
    _, second = await http("GET", f"{PODS}?limit=10&continue={first['metadata']['continue']}")
    assert [pod["metadata"]["name"] for pod in second["items"]] == ["p2", "p3", "p4"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_selectors_choose_by_label_and_field(http: Http) -> None:
    await http("POST", "/api/v1/nodes", make_node())
    await http("POST", PODS, make_pod("a", nodeName="node-1"))
    await http("POST", PODS, make_pod("b"))

    async def names(query: str) -> list[str]:
        _, found = await http("GET", f"/api/v1/pods?{query}")
        return [pod["metadata"]["name"] for pod in found["items"]]

    assert await names("labelSelector=app%20in%20(a,c)") == ["a"]
    assert await names("labelSelector=app!%3Da") == ["b"]
    assert await names("labelSelector=!app") == []
    assert await names("fieldSelector=spec.nodeName%3Dnode-1") == ["a"]
    assert await names("fieldSelector=spec.nodeName%3D") == ["b"]
    assert await names("fieldSelector=status.phase!%3DPending") == []


async def test_events_are_one_storage_with_two_faces(http: Http) -> None:
    event = {
        "metadata": {"name": "e1"},
        "regarding": {"kind": "Pod", "name": "web", "namespace": "default"},
        "note": "hello",
        "reason": "Scheduled",
        "type": "Normal",
        "reportingController": "default-scheduler",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    code, made = await http("POST", "/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (code, made["note"], made["apiVersion"]) == (201, "hello", "events.k8s.io/v1")
    _, core = await http("GET", "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dweb")
    assert core["items"][0]["message"] == "hello" and core["items"][0]["reportingComponent"] == "default-scheduler"
    code, patched = await http(
        "PATCH",
        "/apis/events.k8s.io/v1/namespaces/default/events/e1",
        {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}},
        "application/strategic-merge-patch+json",
    )
    assert (code, patched["series"]["count"], patched["note"]) == (200, 2, "hello")


async def test_an_oversized_body_is_refused(http: Http) -> None:
    code, status = await http("POST", PODS, b" " * (4 * 1024 * 1024))
    assert (code, status["reason"]) == (413, "RequestEntityTooLarge")


async def test_status_writes_leave_the_spec_alone_and_spec_writes_the_status(http: Http) -> None:
    path = "/api/v1/namespaces/default/pods"
    _, pod = await http("POST", path, make_pod())
    pod["status"]["phase"], pod["spec"]["containers"][0]["image"] = "Running", "app:2"
    _, stored = await http("PUT", f"{path}/web/status", pod)
    assert (stored["status"]["phase"], stored["spec"]["containers"][0]["image"]) == ("Running", "app:1")
    stored["status"]["phase"], stored["spec"]["containers"][0]["image"] = "Failed", "app:3"
    _, stored = await http("PUT", f"{path}/web", stored)
    assert (stored["status"]["phase"], stored["spec"]["containers"][0]["image"]) == ("Running", "app:3")
