import type { KeyboardEvent } from "react";

/**
 * Whether a key belongs to an input method (Telex, Pinyin), which uses Enter and Escape itself. Safari has ended the
 * composition by then, and only its key code tells.
 */
export const composes = ({ nativeEvent, keyCode }: KeyboardEvent): boolean => nativeEvent.isComposing || keyCode === 229;
