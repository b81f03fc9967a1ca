/** Only styles: importing it has no value. */
export {};
