"""Checks the bodies of requests against the types that the providers' own SDKs take: on standard input a list of
`[kind, body]`, of which `kind` is `chat`, `responses` or `messages`. What is wrong is told, a line each.

    python check.py
"""

import json
import sys
import typing

import pydantic
from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import is_typeddict

# An `Iterable` is read when somebody asks for its items, which nobody does here: as a list it is checked at once.
iterable, typing.Iterable = typing.Iterable, typing.List
import anthropic.types  # noqa: E402
import openai.types.chat.completion_create_params  # noqa: E402
import openai.types.responses.response_create_params  # noqa: E402

typing.Iterable = iterable


def typed_dicts():
    """All types of the SDKs that are dictionaries."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("anthropic.types", "openai.types", "openai._types", "anthropic._types")):
            for value in vars(module).values():
                if is_typeddict(value):
                    yield value


# A key that the SDK does not know is a mistake of ours.
for kind in typed_dicts():
    kind.__pydantic_config__ = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)

KINDS = {
    "chat": openai.types.chat.completion_create_params.CompletionCreateParamsStreaming,
    "responses": openai.types.responses.response_create_params.ResponseCreateParamsStreaming,
    "messages": anthropic.types.message_create_params.MessageCreateParamsStreaming,
}
ADAPTERS = {name: TypeAdapter(kind) for name, kind in KINDS.items()}
# Each branch of a union that does not fit tells of its own: so many are told of one body.
TOLD = 60


def told(error):
    """One mistake, without the long names of unions."""
    place = ".".join(str(part) for part in error["loc"] if "[" not in str(part))
    return f"{place}: {error['msg']}"


def main():
    wrong = 0
    for number, (kind, body) in enumerate(json.load(sys.stdin)):
        try:
            ADAPTERS[kind].validate_python(body)
        except ValidationError as mistakes:
            wrong += 1
            for error in mistakes.errors(include_url=False, include_input=False)[:TOLD]:
                print(f"{number} ({kind}): {told(error)}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
