/** Going to a card from elsewhere: the inbox, the composer. The card may not be rendered yet. */
let wanted: string | undefined;

export const cardId = (approvalKey: string) => `card-${approvalKey}`;

export function focusCard(approvalKey: string): void {
  wanted = approvalKey;
  takeFocus(approvalKey);
}

/** A card also calls this when it appears. */
export function takeFocus(approvalKey: string): void {
  if (wanted !== approvalKey) return;
  const card = document.getElementById(cardId(approvalKey));
  if (!card) return;
  wanted = undefined;
  // After the frame in which a dialog closes, or the focus would go back to what opened it.
  requestAnimationFrame(() => {
    card.scrollIntoView({ block: "start" });
    card.focus({ preventScroll: true });
  });
}
