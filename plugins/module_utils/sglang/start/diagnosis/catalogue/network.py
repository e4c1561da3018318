# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of ports and of the ranks reaching each other: collectives, NCCL, shared memory between them."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    EFFECT,
    GENERAL,
    HINT,
    RAISED,
    Failure,
    Pattern,
)

_STORE = "PyTorch torch/csrc/distributed/c10d/socket.cpp, TCPStore.cpp"
_NCCL_ERROR = "PyTorch torch/csrc/distributed/c10d/NCCLUtils.cpp"

NETWORK = (
    # The reader may add who holds the port to such an event (watch/observation.py).
    Failure(
        "port_in_use",
        "A port that the server listens on is taken by another process.",
        "See who holds it (`ss -ltnp`) and stop that, or choose another server.port.",
        (
            Pattern(
                r"error while attempting to bind on address \('[^']*', (?P<port>\d+)[^)]*\): (?:\[errno \d+\] )?"
                r"address already in use",
                "CPython asyncio/base_events.py (create_server), as uvicorn server.py logs it",
                "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in "
                "use",
            ),
            Pattern(
                r"\bat (?P<port>\d+) is not available in \d+ seconds"
                r"(?:.*?process\.name\(\)='(?P<owner_command>[^']*)')?(?:.*\bpid=(?P<owner_pid>\d+))?",
                "SGLang utils.py, utils/network.py (wait_port_available)",
                "ValueError: port_base at 30233 is not available in 30 seconds. port_base is used by a process "
                "already. process.name()='python3'' process.cmdline()=['python3', '-m', 'http.server'] "
                "process.status()='sleeping' pid=4711",
                since="0.4.10",
            ),
            Pattern(
                RAISED + r"(?:Address already in use|Port (?P<port>\d+) is already in use)",
                "Linux errno 98 (EADDRINUSE) as CPython's OSError prints it",
                "OSError: [Errno 98] Address already in use",
            ),
            Pattern(
                RAISED + r"The server socket has failed to listen on any local network address\.(?:.*port: "
                r"(?P<port>\d+))?.*(?:EADDRINUSE|[Aa]ddress already in use)",
                _STORE,
                "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
                "address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            ),
            Pattern(
                r"^zmq\.error\.ZMQError: Address already in use",
                "pyzmq zmq/error.py, errno EADDRINUSE",
                "zmq.error.ZMQError: Address already in use (addr='tcp://127.0.0.1:30234')",
            ),
            Pattern(
                r"^Port is already in use\. dist_init_port=|^\w*Error: Port is already in use",
                "SGLang server_args.py (PortArgs.init_new)",
                "Port is already in use. dist_init_port=30433 port_base=30434 detokenizer_port=30435 nccl_port=1 "
                "scheduler_input_port=30436",
            ),
        ),
        "boot",
    ),
    Failure(
        "address_not_local",
        "The server was told to listen on an address that this node does not have.",
        "Set server.host to an address that `ip -brief address` lists on this node, or to 0.0.0.0.",
        (
            Pattern(
                r"error while attempting to bind on address \('(?P<address>[^']*)', (?P<port>\d+)[^)]*\): "
                r"(?:\[errno \d+\] )?cannot assign requested address|^OSError: \[Errno 99\]",
                "Linux errno 99 (EADDRNOTAVAIL), CPython asyncio/base_events.py",
                "ERROR:    [Errno 99] error while attempting to bind on address ('10.9.9.9', 30000): cannot assign "
                "requested address",
            ),
        ),
        "boot",
        fatal=True,
    ),
    Failure(
        "port_forbidden",
        "The unit's user may not listen on such a port.",
        "Choose a port of 1024 or more, or set AmbientCapabilities=CAP_NET_BIND_SERVICE in the unit.",
        (
            Pattern(
                r"error while attempting to bind on address \('[^']*', (?P<port>\d+)[^)]*\): (?:\[errno \d+\] )?"
                r"permission denied",
                "Linux errno 13 (EACCES), CPython asyncio/base_events.py",
                "ERROR:    [Errno 13] error while attempting to bind on address ('0.0.0.0', 80): permission denied",
            ),
        ),
        "boot",
        fatal=True,
    ),
    Failure(
        "shared_memory_full",
        "/dev/shm has no room for the segments by which ranks of one node exchange data.",
        "See what fills it (`df -h /dev/shm`, `ls -lS /dev/shm`), and remove nccl-* and torch_* "
        "files of servers that are gone. If it is too small, enlarge it (`mount -o "
        "remount,size=16G /dev/shm`, for a container --shm-size=16g).",
        (
            Pattern(
                r"Error while (?:creating|attaching to) shared memory segment (?P<path>/dev/shm/\S+)"
                r"(?: \(size (?P<needed_bytes>\d+)\))?|"
                r"Error: failed to (?:extend|create shared memory file) (?P<file>/dev/shm/\S+?)"
                r"(?:,| to (?P<size_bytes>\d+) bytes)",
                "NCCL src/misc/shmutils.cc, src/os/linux.cc from 2.29",
                "Error while creating shared memory segment /dev/shm/nccl-cjY8K5 (size 10617216), error: No space left "
                "on device (28)",
            ),
            Pattern(
                RAISED + r"unable to (?:open|write to|resize|mmap|allocate shared memory)\b.*"
                r"(?:/dev/shm|</?torch_|No space left)",
                "PyTorch aten/src/ATen/MapAllocator.cpp",
                "RuntimeError: unable to write to file </torch_4711_1_0>: No space left on device (28)",
            ),
        ),
    ),
    Failure(
        "network_interface_missing",
        "The interface that NCCL or gloo was told to use is not there, or has no address.",
        "Set NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME to an interface that `ip -brief address` "
        "shows as UP with an address, or leave both out.",
        (
            Pattern(
                r"NCCL WARN Bootstrap : no socket interface found|no socket interface found",
                "NCCL src/bootstrap.cc (bootstrapNetInit)",
                "Bootstrap : no socket interface found",
            ),
            Pattern(
                r"Unable to find interface for: \[?(?P<interface>[\w.-]*)|Unable to find address for: (?P<name>\S+)",
                "gloo transport/tcp/device.cc",
                "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:84] ifa != nullptr. "
                "Unable to find interface for: [eth9]",
            ),
        ),
    ),
    Failure(
        "ranks_timed_out",
        "The ranks did not find each other, or one of them did not answer, within the time that PyTorch gives.",
        "Look for the rank that is missing or behind: whether its node runs, whether its "
        "interface has an address (NCCL_SOCKET_IFNAME), and whether a firewall lets it reach the "
        "address and port of dist-init-addr (`nc -zv ADDRESS PORT`).",
        (
            Pattern(
                r"(?:\[rank(?P<index>\d+)\]:.*)?Watchdog caught collective operation timeout: "
                r".*?OpType=(?P<operation>\w+).*?(?:ran for (?P<ran_ms>\d+) milliseconds|$)",
                "PyTorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp",
                "[rank1]:[E1130 04:12:31.104 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation "
                "timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
                "600081 milliseconds before timing out.",
            ),
            Pattern(
                RAISED + r"The client socket has (?:failed to connect|timed out after (?P<waited_ms>\d+)ms while "
                r"trying to connect) to",
                _STORE,
                "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to "
                "connect to (10.0.0.1, 20000).",
            ),
            Pattern(
                RAISED + r"(?:wait timeout after (?P<waited_ms>\d+)ms, keys|Timed out waiting (?P<gloo_ms>\d+)ms for|"
                r"Timed out after \d+ seconds waiting for clients)",
                "PyTorch TCPStore.cpp; gloo transport/tcp/unbound_buffer.cc",
                "torch.distributed.DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//cuda//nccl_id",
            ),
        ),
        fatal=True,
    ),
    Failure(
        "nccl_error",
        "A call of NCCL failed.",
        "Start once with NCCL_DEBUG=INFO in the unit's environment, and read the NCCL WARN lines "
        "in `journalctl --unit=UNIT --lines=200`. If GPUs of one node do not reach each other, "
        "prove it by a start with NCCL_P2P_DISABLE=1, then switch ACS off and set iommu=pt. "
        "Between nodes, set NCCL_SOCKET_IFNAME.",
        (
            Pattern(
                RAISED + r"NCCL [Ee]rror(?: in:)? (?P<reason>.*)|ncclSystemError: |ncclInternalError: |"
                r"ncclUnhandledCudaError: ",
                _NCCL_ERROR + "; SGLang distributed/device_communicators/pynccl_wrapper.py",
                "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:"
                "94, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5",
            ),
        ),
        standing=GENERAL,
    ),
    Failure(
        "nccl_warning",
        "NCCL warned of something while the ranks tried to reach each other.",
        "Read the lines with NCCL WARN in `journalctl --unit=UNIT --lines=200`. Servers that come "
        "up write such lines too.",
        (
            Pattern(
                r"\bNCCL WARN (?P<reason>.*)",
                "NCCL src/debug.cc",
                "node1:4711:4711 [0] transport/p2p.cc:287 NCCL WARN Cuda failure 'peer access is not supported'",
            ),
        ),
        standing=HINT,
    ),
    Failure(
        "connection_lost",
        "A process lost its connection to another one that ended before it.",
        "Find the process that ended first: the earliest error in `journalctl --unit=UNIT --lines=200`.",
        standing=EFFECT,
    ),
)
