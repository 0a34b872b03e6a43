# SPDX-License-Identifier: Apache-2.0
"""Pages for a real Prometheus to scrape, made anew at each request."""
import http.server
import threading


class PageServer:
    """`answer(path)` gives the text of a page, or None for 503. Serves on loopback until it is closed."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = answer(self.path)
                body = (text or "").encode()
                self.send_response(503 if text is None else 200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 256

            def handle_error(self, *_):
                """A scrape that gave up is not news here: what is lost with it is."""
        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
