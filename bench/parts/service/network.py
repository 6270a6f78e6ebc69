"""Two network namespaces, a client's and a server's, and the network between them."""

import subprocess
import sys
import time
from pathlib import Path

CLIENT, SERVER = "onefold-client", "onefold-server"
CLIENT_ADDRESS, SERVER_ADDRESS = "10.77.0.1", "10.77.0.2"
# Rate in Mbit/s (None: as fast as the machine), and milliseconds of a round trip.
KINDS = {"loopback": (None, 0), "gigabit": (1000, 0), "far": (100, 50), "distant": (1000, 50)}
# Large packets, because a relay in Python carries some ten thousand a second.
FAR_MTU = 9000


def sh(command):
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


class Network:
    """Used in a `with`. Its end removes the namespaces."""

    def __init__(self, kind):
        self.rate, self.trip = KINDS[kind]
        self.relay = None

    def __enter__(self):
        self.remove()
        for name in (CLIENT, SERVER):
            sh(f"ip netns add {name}")
            sh(f"ip -n {name} link set lo up")
        if self.trip:
            relay = Path(__file__).with_name("relay.py")
            self.relay = subprocess.Popen(
                [sys.executable, relay, CLIENT, SERVER, str(self.trip / 2)], stdout=subprocess.PIPE
            )
            self.relay.stdout.readline()
            self.device = "far"
        else:
            sh(f"ip link add veth-c netns {CLIENT} type veth peer name veth-c netns {SERVER}")
            self.device = "veth-c"
        for name, address in ((CLIENT, CLIENT_ADDRESS), (SERVER, SERVER_ADDRESS)):
            if self.trip:
                sh(f"ip -n {name} link set far mtu {FAR_MTU} txqueuelen 2000")
            sh(f"ip -n {name} addr add {address}/24 dev {self.device}")
            sh(f"ip -n {name} link set {self.device} up")
            if self.rate:
                sh(
                    f"tc -n {name} qdisc add dev {self.device} root tbf "
                    f"rate {self.rate}mbit burst 256kb latency 100ms"
                )
            self.windows(name)
        time.sleep(0.5)
        return self

    @staticmethod
    def windows(name):
        """A round trip of 50 ms holds more than the kernel's usual windows."""
        for key in ("tcp_rmem", "tcp_wmem"):
            value = f"net.ipv4.{key}=4096 131072 33554432"
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", value], check=True)

    def __exit__(self, *_):
        if self.relay:
            self.relay.kill()
            self.relay.wait()
        self.remove()

    @staticmethod
    def remove():
        for name in (CLIENT, SERVER):
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)

    @staticmethod
    def of_client(command):
        return ["ip", "netns", "exec", CLIENT, *map(str, command)]

    @staticmethod
    def of_server(command):
        return ["ip", "netns", "exec", SERVER, *map(str, command)]

    def counters(self):
        """Bytes that the client's interface has sent and received."""
        counted = []
        for name in ("tx_bytes", "rx_bytes"):
            path = f"/sys/class/net/{self.device}/statistics/{name}"
            read = subprocess.run(self.of_client(["cat", path]), capture_output=True, check=True)
            counted.append(int(read.stdout))
        return counted
