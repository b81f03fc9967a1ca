/** The same front end with the styles that come along. */
import "@countersign/react/styles.css";
import "../react/page.js";
