"""Joins two network namespaces by two interfaces, and holds each packet back for some time.

    relay.py NAMESPACE NAMESPACE MILLISECONDS

Each namespace gets the interface `far`. Prints a line when both are there, and runs until it is
killed.
"""

import ctypes
import fcntl
import os
import struct
import sys
import threading
import time
from collections import deque

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 2, 0x1000
PACKET_BYTES = 65536


def interface(namespace):
    """Makes the interface in the namespace. Returns its file."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if libc.setns(other, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), namespace)
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", b"far", IFF_TAP | IFF_NO_PI))
    if libc.setns(own, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "own namespace")
    return file


def carry(source, target, delay):
    """Carries packets in one direction. One thread reads, and this one writes them later."""
    queue, filled = deque(), threading.Semaphore(0)

    def read():
        while True:
            packet = os.read(source, PACKET_BYTES)
            queue.append((time.monotonic() + delay, packet))
            filled.release()

    threading.Thread(target=read, daemon=True).start()
    while True:
        filled.acquire()
        due, packet = queue.popleft()
        wait = due - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        try:
            os.write(target, packet)
        except OSError:
            pass  # The interface is down, or its queue is full: packets get lost on networks.


def main():
    one, other = interface(sys.argv[1]), interface(sys.argv[2])
    delay = float(sys.argv[3]) / 1000
    threading.Thread(target=carry, args=(one, other, delay), daemon=True).start()
    print("ready", flush=True)
    carry(other, one, delay)


main()
