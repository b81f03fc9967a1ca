/** Whether the session's turn has failed: decisions then take effect when it is retried. */
import { createContext } from "react";

export const TurnFailed = createContext(false);
