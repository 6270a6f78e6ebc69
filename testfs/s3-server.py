"""An S3 server in memory, for tests: moto. Prints its port and the keys of two users.

It serves one request at a time: moto looks for an object and creates it in two steps, and a
conditional put must be one. It ends with its standard input. With an argument it speaks TLS as
localhost, and leaves its certificate at ARGUMENT.crt.
"""

import json
import os
import sys
import threading

# Every request needs a good signature and a policy. moto reads this when it is imported.
os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = "0"

from moto.iam.access_control import IAMRequestBase
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server, make_ssl_devcert

ACCOUNT = "123456789012"


class Quiet(WSGIRequestHandler):
    """Writes no log. Keeps the address as it came: moto signs it in another spelling."""

    def make_environ(self):
        Quiet.address = self.path
        return super().make_environ()

    def log_request(self, *args):
        pass


def as_it_came(request):
    request._path = Quiet.address
    return make_request(request)


make_request = IAMRequestBase._create_aws_request
IAMRequestBase._create_aws_request = as_it_came


def user(name, actions):
    """A user's keys."""
    iam = iam_backends[ACCOUNT]["aws"]
    iam.create_user("us-east-1", name)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": statement})
    iam.put_user_policy(name, "policy", policy)
    key = iam.create_access_key(name)
    return [key.access_key_id, key.secret_access_key]


s3_backends[ACCOUNT]["aws"].create_bucket("bucket", "us-east-1")
certificate = make_ssl_devcert(sys.argv[1], host="localhost") if len(sys.argv) > 1 else None
server = make_server(
    "127.0.0.1",
    0,
    DomainDispatcherApplication(create_backend_app),
    request_handler=Quiet,
    ssl_context=certificate,
)
for line in [[server.port], user("all", ["s3:*"]), user("none", ["iam:Nothing"])]:
    print(*line, flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
server.serve_forever()
