import { useEffect, useLayoutEffect, useRef, useState, type ComponentType, type ReactNode } from "react";
import { IMAGE_TYPES, type MessageCommand } from "@countersign/client";
import { useDraft, useSettling } from "@countersign/react";
import type { MessageKey } from "../i18n/en.js";
import { useI18n } from "../i18n/index.js";
import { composes } from "../lib/composes.js";
import { imageFiles, MOST_IMAGES, type InlineImage } from "../lib/images.js";
import { late } from "../lib/late.js";
import { giveBack, returned, returnedTo, takeBack } from "../lib/returned.js";
import { useDraftImages } from "../lib/useDraftImages.js";
import { useStore } from "../state/store.js";
import { Icon } from "./Icon.js";

const imageReader = late(() => import("../lib/readImage.js"));

interface Props {
  draftKey: string;
  /** Something is under way, so the person must choose what a message does to it. Writing is always possible. */
  meanwhile?: Meanwhile | undefined;
  /** What happens to a message, if that is not obvious. */
  hint?: string | undefined;
  onSend: (text: string, images: InlineImage[], onPending?: OnPending) => Promise<void>;
  /** Images can be attached: the model that reads the message takes them. */
  takesImages?: boolean | undefined;
  /** The button that stops the turn, if there is one to stop. */
  stop?: ReactNode;
  autoFocus?: boolean;
}

export type OnPending = NonNullable<MessageCommand["on_pending"]>;

/** What a message may do to the work under way, and the result. Enter takes the first. */
export interface Way {
  onPending: OnPending;
  label: string;
  effect: string;
}

export interface Meanwhile {
  /** Describes what is under way. */
  note: ReactNode;
  /** None: this person cannot send now. */
  ways: Way[];
  /** Draws them; the page on which a session begins never needs it. */
  Ways: ComponentType<WaysProps>;
}

export interface WaysProps {
  ways: Way[];
  disabled: boolean;
  onSend: (way: OnPending) => void;
}

export function Composer({ draftKey, meanwhile, hint, onSend, takesImages, stop, autoFocus }: Props) {
  const { t } = useI18n();
  const [text, setText] = useDraft(draftKey, () => "");
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const attacher = useRef<HTMLButtonElement>(null);
  const [images, changeImages] = useDraftImages(draftKey);
  const [problem, setProblem] = useState<MessageKey>();
  const [reading, setReading] = useState(0);
  // A message sent while an image is still being read would go without it.
  const written = text.trim() !== "" || images.length > 0;
  const canSend = reading === 0 && written;

  // As high as its text, up to the limit in the style sheet.
  useLayoutEffect(() => {
    const element = field.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight + 2}px`;
  }, [text]);

  useEffect(() => {
    // Not on touch screens, where it would open the keyboard over the page.
    if (autoFocus && matchMedia("(pointer: fine)").matches) field.current?.focus();
  }, [autoFocus]);

  // "Stop" and "Send" take each other's place.
  const [settling, settle] = useSettling();
  const stops = stop !== undefined;
  useLayoutEffect(settle, [settle, stops]);

  const send = (onPending = meanwhile?.ways[0]?.onPending) => {
    if (!canSend || (meanwhile && onPending === undefined)) return;
    const [sent, attached] = [text, images];
    setText("");
    changeImages(() => []);
    setProblem(undefined);
    onSend(sent, attached, onPending).catch(() => giveBack(draftKey, { text: sent, images: attached }));
  };

  // Refused messages come back one at a time, once nothing new is in the field: images must not join another text.
  const back = useStore(returned);
  const free = images.length === 0 && reading === 0;
  useEffect(() => {
    const [message] = free && field.current?.value === "" ? returnedTo(draftKey) : [];
    if (!message) return;
    setText(message.text);
    changeImages(() => message.images);
    takeBack(draftKey);
  }, [back, draftKey, text, free]);

  const attach = async (files: File[]) => {
    setProblem(undefined);
    setReading((now) => now + 1);
    const reader = await imageReader().catch(() => undefined);
    const read = await Promise.allSettled(reader ? files.map(reader.readImage) : []);
    setReading((now) => now - 1);
    if (!reader) return setProblem("image.notLoaded");
    const made = read.flatMap((r) => (r.status === "fulfilled" ? [r.value] : []));
    if (made.length < files.length) setProblem("image.unreadable");
    changeImages((now) => {
      if (now.length + made.length > MOST_IMAGES) setProblem("image.tooMany");
      return [...now, ...made].slice(0, MOST_IMAGES);
    });
  };

  return (
    <form
      className="composer"
      data-settling={settling || undefined}
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      {images.length > 0 && (
        <ul className="attached" aria-label={t("image.attached")}>
          {images.map((image, i) => (
            <li key={i}>
              <img src={`data:${image.media_type};base64,${image.data}`} alt={t("image.alt", { n: i + 1 })} />
              <button
                type="button"
                className="icon-button"
                aria-label={t("image.remove", { n: i + 1 })}
                onClick={() => {
                  changeImages((now) => now.filter((other) => other !== image));
                  // Its button disappears; if another image takes its place, that image's button takes the focus.
                  if (i === images.length - 1) (attacher.current ?? field.current)?.focus();
                }}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      {problem && (
        <p className="field-error" role="alert">
          {t(problem, { n: MOST_IMAGES })}
        </p>
      )}
      <div className="composer-box">
        {takesImages && (
          <button ref={attacher} type="button" className="icon-button" aria-label={t("image.attach")} onClick={() => picker.current?.click()}>
            <Icon name="image" />
          </button>
        )}
        <input
          ref={picker}
          type="file"
          hidden
          multiple
          accept={IMAGE_TYPES.join(",")}
          onChange={(e) => {
            void attach([...(e.target.files ?? [])]);
            e.target.value = ""; // The same file again is a change, too.
          }}
        />
        <textarea
          ref={field}
          rows={1}
          aria-label={t("composer.label")}
          aria-describedby={`${draftKey}-hint`}
          placeholder={t("composer.placeholder")}
          value={text}
          onChange={(e) => setText(e.target.value)}
          onPaste={(e) => {
            const files = takesImages ? imageFiles(e.clipboardData.files) : [];
            if (files.length === 0) return;
            e.preventDefault();
            void attach(files);
          }}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !composes(e)) {
              e.preventDefault();
              send();
            }
          }}
        />
        {stop}
        {!meanwhile && (
          <button type="submit" className="button primary small" disabled={!canSend}>
            <Icon name="send" />
            {t("composer.send")}
          </button>
        )}
      </div>
      {meanwhile && written && <meanwhile.Ways ways={meanwhile.ways} disabled={!canSend} onSend={send} />}
      <div id={`${draftKey}-hint`} className="composer-hint">
        {meanwhile?.note ?? hint ?? t("composer.hint")}
      </div>
    </form>
  );
}
