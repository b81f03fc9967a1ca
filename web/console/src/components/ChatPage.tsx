import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { CountersignError, decidingRole, isAnswered, pendingApprovals, timeline, type ApprovalView, type SessionView } from "@countersign/client";
import { draftKey, useCardsSettle, useConnection, useSession, useSettling, visibleText } from "@countersign/react";
import { useI18n, type Translate } from "../i18n/index.js";
import { announce } from "../lib/announce.js";
import { barIn } from "../lib/bars.js";
import type { InlineImage } from "../lib/images.js";
import { deciderName } from "../lib/people.js";
import { statusText } from "../lib/status.js";
import { TurnFailed } from "../lib/turnFailed.js";
import { isLeft, longTurns } from "../lib/turns.js";
import { useStickToEnd } from "../lib/useStickToEnd.js";
import { useWindow } from "../lib/useWindow.js";
import { useTurnOf } from "../state/bar.js";
import { client } from "../state/connection.js";
import { agents, forgetSession } from "../state/lists.js";
import { useMe, useOwns, useSummary } from "../state/me.js";
import { useIsForeign, useTakesMessages } from "../state/offers.js";
import { newHref } from "../state/route.js";
import { forgetRefusal, outgoingOf, sendMessage } from "../state/sessions.js";
import { useStore } from "../state/store.js";
import { cardId, focusCard } from "./approval/focus.js";
import { subjectOf } from "./approval/title.js";
import { Boundary } from "./Boundary.js";
import { Composer, type OnPending, type Way } from "./Composer.js";
import { GraphPanel, GraphToggle, useGraphShown } from "./graph/GraphPanel.js";
import { Icon } from "./Icon.js";
import { PastButton } from "./PastButton.js";
import { MessageItem, Said } from "./message/MessageItem.js";
import { TodoDock } from "./message/TodoDock.js";
import { Refused } from "./Refusal.js";
import { RenameButton } from "./RenameButton.js";
import { shortId } from "./Sidebar.js";
import { TopBar } from "./TopBar.js";
import { isHeld, TurnEnd } from "./TurnEnd.js";
import { Ways } from "./Ways.js";

interface Props {
  sessionId: string;
  onMenu: () => void;
}

export function ChatPage({ sessionId, onMenu }: Props) {
  const { t } = useI18n();
  const { view, pending, hasEarlier, missing, deleted, error: unread, cancel, loadEarlier } = useSession(sessionId);
  const { messages: outgoing, fresh, refused } = useStore(outgoingOf(sessionId));
  // The first message was just written in the field of the page before; this field takes its place.
  const [begun] = useState(fresh && outgoing.length > 0);
  const connection = useConnection();
  const list = useStore(agents);
  const row = useSummary(sessionId);
  const [error, setError] = useState<CountersignError>();
  const [graphShown, showGraph] = useGraphShown();
  const agent = list?.find((a) => a.name === row?.agent);
  const turns = useMemo(() => longTurns(view.messages), [view.messages]);

  // Somebody else may have deleted it, and pages of the list below the first one are not read again.
  useEffect(() => {
    if (deleted) forgetSession(sessionId);
  }, [deleted, sessionId]);

  const { subject, title: named } = row ?? {};
  useAnnounceRequests(view, subject);

  const mine = useTurnOf(pending, subject, view);
  // Requests that this person can decide come first.
  const next = mine ?? pending[0];
  // Where one request was, another may be now: the second press of a double click must not decide it.
  const [settling, settle] = useSettling();
  const cardsSettle = useCardsSettle(client);
  useLayoutEffect(() => {
    // Not longer while more comes, or a busy agent could keep people from deciding.
    if (!settling) settle();
  }, [settle, pending.map(draftKey).join(" ")]);
  const scroll = useStickToEnd([view, outgoing], next && cardId(next.approvalKey));
  const onTheWay = outgoing.length > 0;
  // Until its own event has arrived completely, the outgoing message is shown in its place.
  const parts = useMemo(() => timeline(view).filter(({ message }) => !(onTheWay && message.role === "user" && message.open)), [view, onTheWay]);
  const asked = pending.length > 0 ? parts.findIndex(({ blocks }) => blocks.some((b) => b.type === "approval_request" && pending.some((a) => a.approvalKey === b.approvalKey))) : -1;
  const more = useCallback(
    () =>
      loadEarlier().then(
        () => {
          setError(undefined);
          return true;
        },
        (e: unknown) => {
          setError(CountersignError.of(e));
          return false;
        },
      ),
    [loadEarlier],
  );
  const shown = useWindow(scroll.ref, { parts, atEnd: scroll.atEnd, most: asked < 0 ? undefined : asked, more: hasEarlier ? more : undefined });
  const sending = outgoing.some((message) => message.queuedAfter === undefined);
  const busy = (view.status === "running" && !isHeld(view)) || view.status === "awaiting_input" || sending;
  const owns = useOwns(sessionId);
  const foreign = useIsForeign(sessionId);
  const takesMessages = useTakesMessages(sessionId);
  const failed = view.status === "failed";
  const working = view.messages.findLast((m) => m.role === "assistant" && m.open);
  // A session in which nothing has happened has no events, so its status is known only from the list.
  const status = view.status ?? (row?.status === "idle" ? row.status : undefined);
  const title = visibleText(named || firstWords(view)) || t("sessions.untitled", { id: shortId(sessionId) });

  const send = (text: string, images: InlineImage[], onPending?: OnPending) => {
    setError(undefined);
    return sendMessage(sessionId, text, images, { onPending });
  };
  useEffect(() => () => forgetRefusal(sessionId), [sessionId]);
  const stop = () =>
    cancel().then(
      () => setError(undefined),
      (e: unknown) => setError(CountersignError.of(e)),
    );

  const stopButton = !foreign && (view.status === "running" || view.status === "awaiting_input") ? <Stop onStop={stop} /> : undefined;
  const closed = foreign ? t("composer.notYours") : takesMessages ? undefined : t("composer.noAgent");

  return (
    <>
      <TopBar
        title={title}
        detail={
          <>
            {row?.agent && <span>{visibleText(row.agent)}</span>}
            {status && (
              <span className="status" data-status={status}>
                <span className="dot" data-status={status} aria-hidden="true" />
                {next && !mine && !failed ? t("status.waitingFor", { who: deciderName(next, t) }) : statusText(status, t)}
              </span>
            )}
            {view.lastSeq > 0 && <PastButton sessionId={sessionId} />}
            {view.lastSeq > 0 && owns && <RenameButton sessionId={sessionId} title={named} shown={title} />}
          </>
        }
        actions={<GraphToggle shown={graphShown} onChange={showGraph} />}
        onMenu={onMenu}
      />
      <div className="chat-scroll" ref={scroll.ref} onScroll={() => shown.onScroll(scroll.onScroll())}>
        <div className="chat" role="region" aria-label={t("chat.region")} data-settling={settling || cardsSettle || undefined}>
          {missing && (
            <p className="notice">
              <Icon name="warning" />
              <span className="grow">{t("chat.missing")}</span>
              <a className="button small" href={newHref}>
                {t("sessions.new")}
              </a>
            </p>
          )}
          {view.lastSeq === 0 &&
            !missing &&
            !fresh &&
            outgoing.length === 0 &&
            (unread ? <Refused error={unread} /> : <p className="muted center">{t(status === "idle" ? "chat.empty" : "chat.loading")}</p>)}
          {(shown.from > 0 || hasEarlier) && (
            <button type="button" className="link chat-earlier" onClick={shown.earlier}>
              {hasEarlier ? t("chat.earlierSome") : t("chat.earlier", { n: shown.from })}
            </button>
          )}
          <TurnFailed value={failed}>
            {parts.slice(shown.from).map(({ key, message, blocks }) => (
              <Boundary key={key}>
                <MessageItem message={message} turn={turns.get(message.id)} blocks={blocks} approvals={view.approvals} />
              </Boundary>
            ))}
          </TurnFailed>
          {outgoing.map((message) => (
            <div key={message.id} className="message user sending">
              <Said text={message.text} images={message.images} />
              {message.storedAfter === undefined && (
                <p className="hint">{t(message.queuedAfter !== undefined ? "chat.queued" : connection === "open" ? "chat.sending" : "chat.offlineSending")}</p>
              )}
            </div>
          ))}
          {view.status === "running" && !isHeld(view) && pending.length === 0 && (
            <p className="working">
              <span className="pulse" aria-hidden="true" />
              {t("chat.working")}
            </p>
          )}
          <TurnEnd view={view} agent={agent} />
        </div>
      </div>
      <div className="composer-dock">
        {!scroll.atEnd && pending.length === 0 && (
          <button type="button" className="button small jump" onClick={scroll.toEnd}>
            <Icon name="down" />
            {t("chat.jump")}
          </button>
        )}
        <Refused error={error ?? refused} />
        {working && <TodoDock view={view} />}
        {/* A message here would create a session with this id. */}
        {!missing &&
          (closed === undefined ? (
            <Composer
              draftKey={`draft:${sessionId}`}
              onSend={send}
              takesImages={agent?.takes_images}
              autoFocus={begun}
              stop={stopButton}
              meanwhile={
                next && !failed
                  ? { note: <Waits next={next} mine={mine} />, ways: owns ? waysPast(pending, t) : [], Ways }
                  : busy
                    ? { note: t("composer.running"), ways: owns ? waysPast([], t) : [], Ways }
                    : undefined
              }
              hint={isLeft(view) ? t("composer.givesUp") : undefined}
            />
          ) : (
            <NoComposer note={next && !failed ? <Waits next={next} mine={mine} /> : closed} stop={stopButton} />
          ))}
      </div>
      {graphShown && (
        <Boundary>
          <GraphPanel view={view} onClose={() => showGraph(false)} />
        </Boundary>
      )}
    </>
  );
}

/** In place of the composer where this person cannot write: why, and the turn can still be stopped. */
function NoComposer({ note, stop }: { note: ReactNode; stop: ReactNode }) {
  return (
    <div className="composer">
      <div className="composer-hint">{note}</div>
      {stop}
    </div>
  );
}

function Stop({ onStop }: { onStop: () => Promise<void> }) {
  const { t } = useI18n();
  const [stopping, setStopping] = useState(false);
  return (
    <button
      type="button"
      className="button small"
      disabled={stopping}
      onClick={() => {
        setStopping(true);
        void onStop().finally(() => setStopping(false));
      }}
    >
      <Icon name="stop" />
      {stopping ? t("composer.stopping") : t("composer.stop")}
    </button>
  );
}

/** The pending request, and the link to it. */
function Waits({ next, mine }: { next: ApprovalView; mine: ApprovalView | undefined }) {
  const { t } = useI18n();
  return (
    <>
      <Icon name="clock" />
      <span className="composer-waits">
        {mine ? t(isAnswered(mine) ? "composer.waitingQuestion" : "composer.waiting") : waitsForOthers(next, t)}
      </span>
      <button type="button" className="link" onClick={() => focusCard(next.approvalKey)}>
        {t("composer.goTo")}
      </button>
    </>
  );
}

/**
 * What a message can do while these are pending, or while the agent works. A message cannot answer a graph or a server,
 * or say whether a call ran, so it does not reject such requests.
 */
function waysPast(pending: readonly ApprovalView[], t: Translate): Way[] {
  const asked = pending.length > 0 && pending.every(isAnswered);
  const queue: Way = {
    onPending: "queue",
    label: t(pending.length === 0 ? "composer.queueStep" : asked ? "composer.queueAnswer" : "composer.queue"),
    effect: t(pending.length === 0 ? "composer.queueStepEffect" : "composer.queueEffect"),
  };
  if (pending.length === 0 || !pending.every(({ kind }) => kind === "approval" || kind === "question")) return [queue];
  const n = pending.length;
  return [queue, { onPending: "reject", label: t("composer.reject"), effect: t(n === 1 ? "composer.rejectEffect" : "composer.rejectEffects", { n }) }];
}

/** Says that others have to decide or answer it, in a sentence that may begin with their name. */
function waitsForOthers(approval: ApprovalView, t: Translate): string {
  const who = deciderName(approval, t);
  const first = who === t("people.owner") ? t("people.ownerFirst") : who;
  return t(isAnswered(approval) ? "composer.waitingAnswer" : "composer.waitingFor", { who: first });
}

function firstWords(view: SessionView): string {
  if (view.firstSeq !== undefined) return "";
  const block = view.messages.find((m) => m.role === "user")?.blocks.find((b) => b.type === "text");
  return block?.type === "text" ? block.text.slice(0, 80) : "";
}

/** Tell screen readers about each new request, and who has to decide it, once, without moving the focus. */
function useAnnounceRequests(view: SessionView, subject: string | undefined): void {
  const { t } = useI18n();
  const me = useMe();
  const owned = me.name === undefined || subject !== undefined;
  const told = useRef(new Set<string>());
  // In a session that has started over another request can have the same key.
  const keys = pendingApprovals(view).map(draftKey).join(" ");
  useEffect(() => {
    const texts: string[] = [];
    for (const approval of pendingApprovals(view)) {
      if (told.current.has(draftKey(approval))) continue;
      // It is known whether it is this person's once the session's owner is known.
      if (!owned && decidingRole(approval) === undefined) continue;
      told.current.add(draftKey(approval));
      const key = isAnswered(approval) ? "card.announceQuestion" : "card.announce";
      const others = barIn(view, approval, { me, subject }) !== undefined;
      texts.push(others ? t("status.waitingFor", { who: deciderName(approval, t) }) : t(key, { tool: subjectOf(approval, t) }));
    }
    announce(...texts);
    // The keys show new requests; the view itself changes with every event.
  }, [keys, owned]);
}
