/** A client made of nothing but the documents' code, a plain WebSocket and `fetch`. */
import { Fragment, useEffect, useRef, useState, type ReactNode } from "react";
import { createRoot } from "react-dom/client";
import { ApprovalModal, handleEvent, onApprovalRequest } from "snippet:approval-modal";
import { parseAssistantContent } from "snippet:parse-history";
import { renderBlock } from "snippet:resolved-question";

const query = new URLSearchParams(location.search);
const server = query.get("server") ?? "";
const sessionId = query.get("session") ?? "";

interface Message {
  role: string;
  content: object[];
}

function Page() {
  const [request, setRequest] = useState<Record<string, unknown>>();
  const [status, setStatus] = useState("");
  const [history, setHistory] = useState<ReactNode>();
  const socket = useRef<WebSocket>(undefined);

  useEffect(() => {
    onApprovalRequest(setRequest);
    const ws = new WebSocket(`${server.replace("http", "ws")}/v1/ws`, ["countersign.v1"]);
    ws.onmessage = ({ data }: MessageEvent<string>) => {
      const event = JSON.parse(data) as { type: string; status?: string };
      handleEvent(event);
      if (event.type === "hello") setStatus("connected");
      if (event.type === "run_status") setStatus(event.status ?? "");
      if (event.type === "approval_resolved") setRequest(undefined);
    };
    socket.current = ws;
    return () => ws.close();
  }, []);

  const send = (message: object) => socket.current?.send(JSON.stringify(message));
  const loadHistory = async () => {
    const response = await fetch(`${server}/v1/sessions/${sessionId}/history`);
    const { messages } = (await response.json()) as { messages: Message[] };
    const blocks = messages.filter((m) => m.role === "assistant").flatMap((m) => parseAssistantContent(m));
    setHistory(blocks.map((block, i) => <Fragment key={i}>{renderBlock(block, i, {})}</Fragment>));
  };

  return (
    <>
      <p role="status">{status}</p>
      <button onClick={() => send({ type: "message", session_id: sessionId, content: "Start" })}>Start</button>
      <button onClick={() => void loadHistory()}>History</button>
      {/* A question has no `actions`: its content comes later, and it is not for this modal. What is chosen belongs to one
          request: without the key, a request that follows at once would get the choices of the last one. */}
      {request?.actions !== undefined && <ApprovalModal key={String(request.approval_key)} request={request} sessionId={sessionId} onSend={send} />}
      <section aria-label="History">{history}</section>
    </>
  );
}

const root = document.getElementById("root");
if (root) createRoot(root).render(<Page />);
