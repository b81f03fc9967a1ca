/** A front end made of @countersign/react alone, without styles of its own. */
import { createRoot } from "react-dom/client";
import { CountersignClient, CountersignHttp, historyOf } from "@countersign/client";
import {
  ApprovalCard,
  CountersignProvider,
  ResolvedQuestionBlock,
  useConnection,
  useInbox,
  useSession,
} from "@countersign/react";
import { english } from "@countersign/react/en";
import { vietnamese } from "@countersign/react/vi";
import { chinese } from "@countersign/react/zh";

const query = new URLSearchParams(location.search);
const token = query.get("token") ?? undefined;
const http = new CountersignHttp({ baseUrl: query.get("server") ?? "", token: () => token });
const client = new CountersignClient({ url: http.webSocketUrl(), ...(token === undefined ? {} : { token }) });
client.connect();

function Chat({ id }: { id: string }) {
  const session = useSession(id);
  const state = useConnection();
  const blocks = historyOf(session.view).flatMap((message) => message.content);
  return (
    <main>
      <h1>Chat</h1>
      <p data-testid="state">
        {state} {session.view.status} {session.missing && "missing"}
      </p>
      <button onClick={() => void session.send("Start")}>Start</button>
      {Object.values(session.view.approvals).map((request) => (
        <ApprovalCard key={request.approvalKey} approval={request} />
      ))}
      <section aria-label="History">
        {session.hasEarlier && <button onClick={() => void session.loadEarlier()}>Earlier messages</button>}
        {blocks.map((block, i) => {
          if (block.type === "text") return <p key={i}>{block.text}</p>;
          const answered = block.type === "approval_request" && block.isResolved && "submittedAnswers" in block;
          return answered ? <ResolvedQuestionBlock key={i} block={block} /> : null;
        })}
      </section>
    </main>
  );
}

function Inbox() {
  const inbox = useInbox({ query: { limit: 2 }, everyMs: 300 });
  return (
    <aside aria-label="Inbox">
      <ul>
        {inbox.requests.map((request) => (
          <li key={request.approvalKey}>{request.approvalKey}</li>
        ))}
      </ul>
      {inbox.hasMore && <button onClick={() => void inbox.loadMore()}>More</button>}
    </aside>
  );
}

const labels = [vietnamese, chinese].find(({ language }) => language === query.get("language")) ?? english;
document.documentElement.lang = labels.language;

createRoot(document.getElementById("root")!).render(
  <CountersignProvider client={client} http={http} labels={labels}>
    <Chat id="s1" />
    <Inbox />
  </CountersignProvider>,
);
