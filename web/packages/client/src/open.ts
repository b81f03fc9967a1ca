/** A set of values that newer servers may extend: one of those known now, which an editor offers, or any other. */
export type Open<Value extends string> = Value | (string & {});
