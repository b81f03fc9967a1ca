/** Going to a card from elsewhere: the inbox, the composer. The card may not be rendered yet. */
let wanted: string | undefined;

export const cardId = (approvalKey: string) => `card-${approvalKey}`;

export function focusCard(approvalKey: string): void {
  wanted = approvalKey;
  takeFocus(approvalKey);
}

/** Where people type. */
export const TYPING = "textarea, select, input:not([type=checkbox], [type=radio])";

/** A card also calls this when it appears. */
export function takeFocus(approvalKey: string): void {
  if (wanted !== approvalKey) return;
  const card = document.getElementById(cardId(approvalKey));
  if (!card) return;
  wanted = undefined;
  // After the frame in which a dialog closes, or the focus would go back to what opened it.
  requestAnimationFrame(() => {
    // A reply is stored a while after it was sent: what somebody types elsewhere by then must not become keys of the card.
    if (isAtWorkElsewhere()) return;
    card.scrollIntoView({ block: "start" });
    card.focus({ preventScroll: true });
  });
}

/** Whether a person types outside of a card, or has opened a dialog. */
function isAtWorkElsewhere(): boolean {
  const now = document.activeElement;
  const types = now?.closest(TYPING) != null && now.closest(`[id^="${cardId("")}"]`) === null;
  return types || document.querySelector("dialog[open]") !== null;
}
