"""A conversation through what openapi-python-client and datamodel-code-generator make of the published documents."""

import json
import sys

import httpx

from generated.countersign_client import Client
from generated.countersign_client.api.approvals import decide_approval, list_approvals
from generated.countersign_client.api.sessions import read_history, send_message
from generated.countersign_client.models import (
    Args,
    Decide,
    Decision,
    DecisionType,
    EditedAction,
    HistoryText,
    KnownStatus,
    ListApprovalsStatus,
    Outcome,
    PostMessage,
    Problem,
)
from generated.openapi_models import Outcome as OutcomeModel
from generated.wire import SessionEvent

SAID = "Mua 100 VNM / 买入"
SESSION = "python"


def main(url):
    client = Client(base_url=url)
    outcome = send_message.sync(SESSION, client=client, body=PostMessage(content=SAID))
    assert isinstance(outcome, Outcome) and outcome.status == KnownStatus.AWAITING_INPUT, outcome

    page = list_approvals.sync(client=client, status=ListApprovalsStatus.WAITING, session_id=SESSION)
    [view] = page.approvals
    [action] = view.actions
    assert action.args["quantity"] == 100, action

    args = Args.from_dict({**action.args.to_dict(), "quantity": 54})
    edit = Decision(type_=DecisionType.EDIT, edited_action=EditedAction(name=action.name, args=args))
    decided = decide_approval.sync(view.approval_key, client=client, wait=True, body=Decide(decisions=[edit]))
    assert isinstance(decided, Outcome) and decided.status == KnownStatus.COMPLETED, decided

    late = decide_approval.sync(
        view.approval_key, client=client, body=Decide(decisions=[Decision(type_=DecisionType.APPROVE)])
    )
    assert isinstance(late, Problem) and late.code == "approval_already_resolved", late

    history = read_history.sync(SESSION, client=client)
    texts = [block.text for message in history.messages for block in message.content if isinstance(block, HistoryText)]
    assert texts[0] == SAID, texts

    # Every event, and an outcome, as the other generator's models read them.
    OutcomeModel.model_validate(decided.to_dict())
    kinds = []
    with httpx.stream("GET", f"{url}/v1/sessions/{SESSION}/events?after=0") as events:
        for line in events.iter_lines():
            if line.startswith("data:"):
                event = SessionEvent.model_validate(json.loads(line[5:])).root
                kinds.append(event.type)
                if event.type == "run_status" and event.model_dump(mode="json")["status"] == "completed":
                    break
    assert kinds[0] == "message_start" and "approval_resolved" in kinds, kinds


main(sys.argv[1])
