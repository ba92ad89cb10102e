"""A receiver of POSTs that keeps what comes: receiver.py FOLDER. Prints its port.
Each body is a file NUMBER-PATH in the folder, with its headers beside it as NUMBER-PATH.headers. While the folder has a
file `answer`, that file's code is the answer, and nothing is kept."""
import os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder, count = sys.argv[1], 0

class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        global count
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        code = 200
        if os.path.exists(folder + "/answer"):
            code = int(open(folder + "/answer").read())
        else:
            name = f"{folder}/{count:06d}{self.path.replace('/', '-')}"
            count += 1
            with open(name + ".headers", "w") as out:
                out.write(str(self.headers))
            with open(name + ".part", "wb") as out:
                out.write(body)
            os.rename(name + ".part", name)
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
print(server.server_address[1], flush=True)
server.serve_forever()
