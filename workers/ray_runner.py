"""A Runner on a Ray cluster: a detached actor per Device, which measures as the local runner does.

Only JSON text and bytes cross the cluster, every wait has a limit, and Ray retries nothing by itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compiler.codegen.kernel import kernels_from_json, kernels_json
from compiler.errors import LuthierError, MeasureError
from tuner.measure import Built, MeasureOptions, MeasureResult, result_from_json, result_json
from tuner.task import Task
from workers.local import SETUP_TIMEOUT_S, LocalRunner
from workers.process import START_TIMEOUT_S
from workers.ray_cluster import NAMESPACE, RayCluster, resource_name
from workers.wire import (
    options_from_json,
    options_json,
    task_from_json,
    task_json,
)

ACTOR_TIMEOUT_S = 120.0
_ROOT = Path(__file__).resolve().parent.parent


class DeviceHost:
    """What the actor does: it hosts the local runner of one Device. Speaks JSON text and bytes only."""

    def __init__(self, device: str) -> None:
        """`device` names it in every Trial."""
        self._device = device
        self._options = ""
        self._runner: LocalRunner | None = None

    def ping(self) -> str:
        """The Device's name, once the actor runs."""
        return self._device

    def measure(self, request: str, objects: list[bytes]) -> str:
        """Measure one after the other or in turns.

        Returns JSON with `results`, or with `broken` and why the Device measured nothing.
        """
        data = json.loads(request)
        kernels = kernels_from_json(data["kernels"], objects)
        built = [Built(k, s) for k, s in zip(kernels, data["build_s"], strict=True)]
        pacer = built.pop() if data["paced"] else None
        try:
            runner = self._runner_for(data["options"])
            task = task_from_json(data["task"])
            results = runner.compare(task, built) if data["in_turns"] else runner.run(task, built, pacer)
        except LuthierError as error:
            return json.dumps({"broken": str(error)})
        return json.dumps({"results": [result_json(r) for r in results]})

    def _runner_for(self, options: dict[str, Any]) -> LocalRunner:
        key = json.dumps(options, sort_keys=True)
        if self._runner is None or key != self._options:
            if self._runner is not None:
                self._runner.close()
            self._options, self._runner = key, LocalRunner(self._device, options_from_json(options))
        return self._runner


class RayRunner:
    """A Runner on the node of a Ray cluster that offers the resource `device_<device>`."""

    def __init__(
        self, device: str = "local", options: MeasureOptions | None = None, address: str | None = None
    ) -> None:
        """Connect to `address`, or start a cluster on this machine that offers the Device.

        Raises:
            InputError: Ray is not installed.
            MeasureError: Ray cannot be started or reached, or no node offers the Device.
        """
        self._device = device
        self._options = options or MeasureOptions()
        self._cluster = RayCluster(device, address)
        self._made_actor = False
        try:
            self._actor = self._find_actor()
        except MeasureError:
            self.close()
            raise

    @property
    def device(self) -> str:
        """Name of the Device that it measures on."""
        return self._device

    def run(self, task: Task, built: Sequence[Built], pacer: Built | None = None) -> list[MeasureResult]:
        """Measure all; a lost actor is replaced once. Raises MeasureError where the Device stays lost."""
        return self._results(task, [*built, *([] if pacer is None else [pacer])], paced=pacer is not None)

    def compare(self, task: Task, built: Sequence[Built]) -> list[MeasureResult]:
        """Measure all in turns; a lost actor is replaced once. Raises MeasureError where the Device stays lost."""
        return self._results(task, built, in_turns=True)

    def _results(
        self, task: Task, built: Sequence[Built], *, in_turns: bool = False, paced: bool = False
    ) -> list[MeasureResult]:
        kernels, objects = kernels_json([b.kernel for b in built])
        request = {
            "task": task_json(task),
            "options": options_json(self._options),
            "kernels": kernels,
            "build_s": [b.build_s for b in built],
            "in_turns": in_turns,
            "paced": paced,
        }
        answer = json.loads(self._measure(json.dumps(request), list(objects), len(built)))
        if "broken" in answer:
            raise MeasureError(str(answer["broken"]))
        return [result_from_json(r) for r in answer["results"]]

    def close(self) -> None:
        """End the actor if this runner made it, and the cluster if this runner started it."""
        if self._made_actor:
            self._made_actor = False
            self._cluster.ray.kill(self._actor)
        self._cluster.close()

    def _measure(self, request: str, objects: list[bytes], count: int) -> str:
        timeout_s = SETUP_TIMEOUT_S + count * (self._options.timeout_s + START_TIMEOUT_S)
        errors = self._cluster.ray.exceptions
        for _ in range(2):
            try:
                reference = self._actor.measure.remote(request, objects)
                return str(self._cluster.ray.get(reference, timeout=timeout_s))
            except errors.GetTimeoutError as error:
                self._cluster.ray.kill(self._actor)
                raise _lost(self._device, "did not answer in time") from error
            except errors.RayError:
                self._actor = self._find_actor()
        raise _lost(self._device, "lost its actor twice")

    def _find_actor(self) -> Any:
        """The Device's actor, made where it does not run yet; waits until it answers."""
        ray = self._cluster.ray
        name = f"{NAMESPACE}-device-{self._device}"
        options = {
            "num_cpus": 0,
            "resources": {resource_name(self._device): 1},
            "max_restarts": -1,
            "max_task_retries": 0,
            "lifetime": "detached",
            "namespace": NAMESPACE,
            "name": name,
            "get_if_exists": True,
            "runtime_env": {"env_vars": {"PYTHONPATH": str(_ROOT)}},
        }
        try:
            self._made_actor |= not _exists(ray, name)
            self._actor = ray.remote(DeviceHost).options(**options).remote(self._device)
            ray.get(self._actor.ping.remote(), timeout=ACTOR_TIMEOUT_S)
        except ray.exceptions.RayError as error:
            raise _lost(self._device, "has no actor that answers") from error
        return self._actor


def _lost(device: str, why: str) -> MeasureError:
    return MeasureError(f"the Ray device {device!r} {why}; see that a node offers {resource_name(device)!r}")


def _exists(ray: Any, name: str) -> bool:
    try:
        ray.get_actor(name, namespace=NAMESPACE)
    except ValueError:
        return False
    return True
