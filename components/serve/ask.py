"""Asks a server with OpenAI's own client, as a user's program would, and times it.

In: an address, a `Spec` and the questions. Out: `Answers`. Everything is greedy, so a question has one answer. The ids of
tokens and prompts are what vLLM adds to OpenAI's answers when it is asked to. Raises the client's own errors; `Asker.count`
says how many requests had been answered until then.
"""

from __future__ import annotations

import concurrent.futures
import json
import time
import urllib.request
from collections.abc import Sequence
from typing import Any

import openai

from components.serve.spec import PROGRESS, Answer, Answers, Question, Spec, Speed, Stop

_IDS = {"return_token_ids": True}


class Asker:
    """A client of one server."""

    def __init__(self, address: str, spec: Spec) -> None:
        self._address = address
        self._spec = spec
        # tried once: a request that fails tells something
        self._client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=spec.startup_s)
        self._greedy: dict[str, Any] = {"model": spec.name, "temperature": 0.0, "max_tokens": spec.max_tokens}
        self.count = 0

    def ask(self, questions: Sequence[Question]) -> Answers:
        """Asks for everything that is compared; the first questions one after the other, all of them at once."""
        models = [model.id for model in self._client.models.list()]
        first = questions[: self._spec.prompts]
        _tell(f"{len(first)} prompts, as completions and as chats")
        completions = [self._completion(question) for question in first]
        chats = [self._chat(question) for question in first]
        stop = self._stopped(first[0], chats[0])
        _tell("timing")
        first_token_s, alone = self._timed(first)
        _tell(f"{len(questions)} questions, {self._spec.concurrency} at a time")
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(self._spec.concurrency) as pool:
            at_once = list(pool.map(self._chat, questions))
        seconds = time.monotonic() - started
        return Answers(
            vllm=self._version(),
            models=models,
            completions=completions,
            chats=chats,
            stop=stop,
            at_once=at_once,
            speed=Speed(
                first_token_s=first_token_s,
                tokens_per_s_alone=alone,
                tokens_per_s_at_once=sum(len(answer.token_ids) for answer in at_once) / seconds,
            ),
        )

    def _completion(self, question: Question) -> Answer:
        found = self._client.completions.create(
            prompt=question.prompt_ids, logprobs=1, extra_body=_IDS, **self._greedy
        ).choices[0]
        self.count += 1
        more: Any = found
        assert found.logprobs
        return Answer(
            id=question.id,
            prompt_ids=more.prompt_token_ids,
            token_ids=more.token_ids,
            logprobs=[float(value) for value in found.logprobs.token_logprobs or ()],
            text=found.text,
            ended=found.finish_reason == "stop",
        )

    def _chat(self, question: Question, **more: Any) -> Answer:
        said: Any = self._client.chat.completions.create(
            messages=[{"role": "user", "content": question.message}],
            logprobs=True,
            extra_body=_IDS,
            **self._greedy,
            **more,
        )
        self.count += 1
        found = said.choices[0]
        return Answer(
            id=question.id,
            prompt_ids=said.prompt_token_ids,
            token_ids=found.token_ids,
            logprobs=[token.logprob for token in found.logprobs.content],
            text=found.message.content or "",
            ended=found.finish_reason == "stop",
        )

    def _stopped(self, question: Question, whole: Answer) -> Stop:
        """Asks again for an answer that is to end before a text from its middle."""
        half = len(whole.text) // 2
        stop = whole.text[half : half + 3] or "."
        return Stop(stop=stop, text=self._chat(question, stop=[stop]).text, whole=whole.text)

    def _timed(self, questions: Sequence[Question]) -> tuple[list[float], float]:
        """Seconds to the first token of each question, asked alone, and tokens per second over all of them."""
        first_token_s, tokens, seconds = [], 0, 0.0
        for question in questions:
            started = time.monotonic()
            first: float | None = None
            for chunk in self._client.completions.create(
                prompt=question.prompt_ids, stream=True, stream_options={"include_usage": True}, **self._greedy
            ):
                first = first or time.monotonic() - started
                tokens += chunk.usage.completion_tokens if chunk.usage else 0
            seconds += time.monotonic() - started
            first_token_s.append(first or 0.0)
            self.count += 1
        return first_token_s, tokens / seconds

    def _version(self) -> str:
        with urllib.request.urlopen(f"{self._address}/version", timeout=self._spec.startup_s) as answer:
            return str(json.load(answer)["version"])


def _tell(what: str) -> None:
    print(f"{PROGRESS}asking vLLM: {what}", flush=True)
