/** What newer servers may add to. */

/** One of the values that are known now, which an editor offers, or any other. */
export type Open<Value extends string> = Value | (string & {});

/** Of a union those that are known by their name; what a schema has in it for others is none of them. */
export type Named<T, Key extends string = "type"> = T extends Record<Key, infer Name> ? (string extends Name ? never : T) : T;
