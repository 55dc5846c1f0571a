"""A server with vLLM's command line and answers, but a script instead of a model.

It has the tokenizer, the chat template and the end token of the directory that it serves. SCRIPT is JSON: `answers`, a
text for every question; `fault`, how it goes wrong (none: it does not); `requests`, how many it answers before that.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCRIPT = json.loads(os.environ["SCRIPT"])
FAULT = SCRIPT.get("fault")
LOGPROB = -0.5


def say(text: str) -> None:
    print(f"(EngineCore pid={os.getpid()}) {text}", flush=True)


class Model:
    """What would be the model."""

    def __init__(self, directory: str) -> None:
        from transformers import AutoTokenizer  # seconds, which a server that only fails need not take

        self.tokenizer = AutoTokenizer.from_pretrained(directory)
        self._busy = threading.Lock()
        self.answered = 0

    def answer(self, prompt_ids: list[int], max_tokens: int, stop: list[str]) -> dict[str, Any]:
        self.answered += 1
        if self.answered > SCRIPT.get("requests", 0):
            if FAULT == "dies":
                say(
                    "ERROR 11-30 10:00:00 [core.py:1] RuntimeError: Unsupported CPU attention configuration: head_dim=16"
                )
                say("ERROR 11-30 10:00:01 [core.py:1] EngineDeadError: EngineCore encountered an issue.")
                print('INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error', flush=True)
                os._exit(0)  # as vLLM, which takes this for an orderly end
            if FAULT == "refuses":
                return {"error": {"message": "no such thing", "type": "BadRequest", "code": 400}}
        alone = self._busy.acquire(blocking=False)
        try:
            time.sleep(0.02 if FAULT == "disturbed" else 0)
            return self._generate(prompt_ids, max_tokens, stop, alone)
        finally:
            if alone:
                self._busy.release()

    def _generate(self, prompt_ids: list[int], max_tokens: int, stop: list[str], alone: bool) -> dict[str, Any]:
        prompt = self.tokenizer.decode(prompt_ids)
        text = next((answer for question, answer in SCRIPT["answers"].items() if question in prompt), "what?")
        if FAULT == "disturbed" and not alone:
            text = text[::-1]
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        end = self.tokenizer.eos_token_id
        ended = end is not None and len(ids) < max_tokens
        ids = [*ids, end] if ended else (ids + ids * max_tokens)[:max_tokens]
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        for word in stop if FAULT != "deaf" else ():
            text, found, _ = text.partition(word)
            ended = ended or bool(found)
        return {"prompt_ids": prompt_ids, "ids": ids, "text": text, "reason": "stop" if ended else "length"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model
    name: str

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            self.reply({}, 503 if FAULT == "never healthy" else 200)
        elif self.path == "/version":
            self.reply({"version": "0.0-scripted"})
        else:
            name = "somebody-else" if FAULT == "another" else self.name
            self.reply({"object": "list", "data": [{"id": name, "object": "model", "created": 0, "owned_by": "vllm"}]})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        chat = self.path == "/v1/chat/completions"
        if chat:
            prompt = self.model.tokenizer.apply_chat_template(
                asked["messages"], tokenize=False, add_generation_prompt=True
            )
            prompt_ids = self.model.tokenizer(prompt, add_special_tokens=False)["input_ids"]
        else:
            prompt_ids = asked["prompt"]
        found = self.model.answer(prompt_ids, asked["max_tokens"], asked.get("stop") or [])
        if "error" in found:
            self.reply(found, found["error"]["code"])
        elif asked.get("stream"):
            self.stream(found)
        else:
            self.reply(self.chat(found) if chat else self.completion(found))

    def chat(self, found: dict[str, Any]) -> dict[str, Any]:
        logprobs = [{"token": "", "logprob": LOGPROB, "top_logprobs": []} for _ in found["ids"]]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": found["text"]},
            "logprobs": {"content": logprobs},
            "finish_reason": found["reason"],
            "token_ids": found["ids"],
        }
        common = {"id": "c", "object": "chat.completion", "created": 0, "model": self.name}
        return {**common, "choices": [choice], "prompt_token_ids": found["prompt_ids"]}

    def completion(self, found: dict[str, Any]) -> dict[str, Any]:
        choice = {
            "index": 0,
            "text": found["text"],
            "logprobs": {"token_logprobs": [LOGPROB] * len(found["ids"])},
            "finish_reason": found["reason"],
            "token_ids": found["ids"],
            "prompt_token_ids": found["prompt_ids"],
        }
        return {"id": "c", "object": "text_completion", "created": 0, "model": self.name, "choices": [choice]}

    def stream(self, found: dict[str, Any]) -> None:
        usage = {"prompt_tokens": 1, "completion_tokens": len(found["ids"]), "total_tokens": 1 + len(found["ids"])}
        common = {"id": "c", "object": "text_completion", "created": 0, "model": self.name}
        choice = {"index": 0, "text": found["text"], "logprobs": None, "finish_reason": found["reason"]}
        chunks = [{**common, "choices": [choice]}, {**common, "choices": [], "usage": usage}]
        text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        self.send(text.encode(), "text/event-stream", 200)

    def reply(self, body: dict[str, Any], status: int = 200) -> None:
        self.send(json.dumps(body).encode(), "application/json", status)

    def send(self, body: bytes, kind: str, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--model", "--served-model-name", "--host", "--dtype"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    options, _ = parser.parse_known_args()
    say("INFO 11-30 10:00:00 [loader.py:1] Loading weights")
    if FAULT == "does not start":
        say("ERROR 11-30 10:00:00 [core.py:1] SafetensorError: Error while deserializing header: incomplete metadata")
        say("ERROR 11-30 10:00:01 [core.py:1] RuntimeError: Engine core initialization failed. See root cause above.")
        sys.exit(1)
    if FAULT == "library":
        say(
            "WARNING 11-30 10:00:00 [cpu.py:1] Failed to import: ImportError('libnuma.so.1: cannot open shared object file')"
        )
        say("ERROR 11-30 10:00:01 [core.py:1] AttributeError: '_OpNamespace' '_C' object has no attribute 'init_cpu'")
        sys.exit(1)
    if FAULT == "settings":
        print("pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig")
        print("  Value error, Model architectures ['Other'] are not supported. [type=value_error]", flush=True)
        sys.exit(1)
    if FAULT == "port":
        say(
            "ERROR 11-30 10:00:00 [api.py:1] OSError: [Errno 98] error while attempting to bind: address already in use"
        )
        sys.exit(1)
    if FAULT == "silent":
        time.sleep(600)
    Handler.model, Handler.name = Model(options.model), options.served_model_name
    ThreadingHTTPServer((options.host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
