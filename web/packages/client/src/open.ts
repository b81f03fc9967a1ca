/** What newer servers may add to: one of the values that are known now, which an editor offers, or any other. */
export type Open<Value extends string> = Value | (string & {});
