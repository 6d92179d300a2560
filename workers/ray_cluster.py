"""The Ray cluster that a RayRunner uses: connected to, or started on this machine and shut down again."""

from __future__ import annotations

import logging
import shutil
import tempfile
from typing import Any

from compiler.errors import InputError, MeasureError
from workers.settings import secure_new_ray_cluster

NAMESPACE = "luthier"
_OBJECT_STORE_BYTES = 80 << 20  # little above the least that Ray accepts: kernels are small
_FOLDER = "/tmp"  # the paths of Ray's sockets must stay short, whatever TMPDIR says


class RayCluster:
    """A connection of this process to Ray; `close` shuts down only what it started or connected itself."""

    def __init__(self, device: str, address: str | None = None) -> None:
        """Connect to the cluster at `address`, use this process's connection, or start a cluster with one Device.

        Raises:
            InputError: Ray is not installed.
            MeasureError: Ray cannot be started or reached.
        """
        self._folder: str | None = None
        self._ours = False
        if address is None:
            secure_new_ray_cluster()
        self.ray = _import_ray()
        if self.ray.is_initialized():
            return
        try:
            self._connect(device, address)
        except Exception as error:  # Ray raises many unrelated types here.
            self.close()
            what = f"reached at {address}" if address else "started"
            msg = f"Ray cannot be {what} ({type(error).__name__}: {error}); check the address, or use --runner local"
            raise MeasureError(msg) from error

    def close(self) -> None:
        """Disconnect; ends the cluster's processes and removes its folder where this object started them."""
        if self._ours:
            self._ours = False
            self.ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _connect(self, device: str, address: str | None) -> None:
        quiet = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
        self._ours = True
        if address is not None:
            self.ray.init(address=address, **quiet)
            return
        self._folder = tempfile.mkdtemp(prefix="luthier-ray-", dir=_FOLDER)
        self.ray.init(
            address="local",
            num_cpus=1,
            num_gpus=0,
            resources={resource_name(device): 1},
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=self._folder,
            **quiet,
        )


def resource_name(device: str) -> str:
    """The custom resource that the node with this Device offers."""
    return f"device_{device}"


def _import_ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        msg = "the Ray runner needs Ray; install it with `pip install luthier[ray]`, or use --runner local"
        raise InputError(msg) from error
    return ray
