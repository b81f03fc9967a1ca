/** Whether the session's turn has failed: what is decided then takes effect when it is tried again. */
import { createContext } from "react";

export const TurnFailed = createContext(false);
