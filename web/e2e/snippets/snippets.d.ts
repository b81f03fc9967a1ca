declare module "snippet:approval-modal" {
  import type { ReactNode } from "react";
  export function ApprovalModal(props: { request: unknown; sessionId: string; onSend: (message: object) => void }): ReactNode;
  export function handleEvent(message: unknown): void;
  export function onApprovalRequest(listener: (request: Record<string, unknown>) => void): void;
}

declare module "snippet:parse-history" {
  export function parseAssistantContent(message: object): object[];
}

declare module "snippet:resolved-question" {
  import type { ReactNode } from "react";
  export function renderBlock(block: object, index: number, options: object): ReactNode;
}
